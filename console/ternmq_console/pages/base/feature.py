"""The description of a module of pages: its pages, and the forms on them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.pages.base.forms import PageForm
    from ternmq_console.pages.base.page_context import PageContext

    Show = Callable[[Request, PageContext], Awaitable[Response]]
    ShowAgain = Callable[[Request, PageContext, str, PageForm | None], Awaitable[Response]]
    Do = Callable[[Request, PageContext, PageForm], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFeature:
    """The pages and forms of a module, by their paths below `/console`.

    `shown` are pages. `done` are forms: the function that carries one out, and the page that is shown again with the
    error if it fails. `homes` are path and name of pages in the navigation. A feature with `is_of_access` exists with
    access control only.
    """

    homes: "tuple[tuple[str, str], ...]"
    shown: "dict[str, Show]"
    done: "dict[str, tuple[Do, ShowAgain]]"
    is_of_access: bool = False
