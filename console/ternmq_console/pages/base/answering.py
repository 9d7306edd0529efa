"""How a page answers."""

from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, RedirectResponse

from ternmq_console.pages.base.rendering import rendered

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.pages.base.asking import Asking


async def page(request: "Request", asking: "Asking", template: str, *, status: int = 200, **values: Any) -> "Response":  # noqa: ANN401 - whatever a template shows
    """A page for who is signed in."""
    session = asking.session
    text = await rendered(
        template,
        asking.root,
        user=session.name,
        token=session.token,
        notice="" if _is_part(request) else session.take_notice(),
        here=request.url.path,
        navigation=asking.navigation,
        **values,
    )
    return HTMLResponse(text, status)


def _is_part(request: "Request") -> bool:
    """Whether the page asks by itself, for part of what it shows."""
    return "hx-request" in request.headers


def moved_to(path: str) -> "Response":
    """The browser goes on there, and asks again there if it is told to reload."""
    return RedirectResponse(path, 303)
