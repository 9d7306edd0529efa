"""What a module of pages has: those that are shown, and the forms that are sent from them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.pages.base.asking import Asking
    from ternmq_console.pages.base.forms import Form

    Show = Callable[[Request, Asking], Awaitable[Response]]
    ShowAgain = Callable[[Request, Asking, str, Form | None], Awaitable[Response]]
    Do = Callable[[Request, Asking, Form], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """`shown` are pages by their paths below `/console`. `done` are forms: what carries one out, and which page is
    shown again, with what is wrong, if it can't be done. `homes` stand in the navigation, by path and name. One
    `is_of_access` is there with access control alone."""

    homes: "tuple[tuple[str, str], ...]"
    shown: "dict[str, Show]"
    done: "dict[str, tuple[Do, ShowAgain]]"
    is_of_access: bool = False
