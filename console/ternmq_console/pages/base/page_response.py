"""Builds the responses of pages."""

from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, RedirectResponse

from ternmq_console.pages.base.rendering import render_template

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.pages.base.page_context import PageContext


async def render_page(
    request: "Request",
    asking: "PageContext",
    template: str,
    *,
    status: int = 200,
    **values: Any,  # noqa: ANN401 - whatever a template shows
) -> "Response":
    """Render a page for the signed-in user."""
    session = asking.session
    text = await render_template(
        template,
        asking.root,
        user=session.name,
        token=session.token,
        notice="" if _is_partial_request(request) else session.take_notice(),
        here=request.url.path,
        navigation=asking.navigation,
        **values,
    )
    return HTMLResponse(text, status)


def _is_partial_request(request: "Request") -> bool:
    """Return whether the script of a page requests a part of it."""
    return "hx-request" in request.headers


def redirect_to(path: str) -> "Response":
    """Redirect the browser to a path after a form, so that a reload does not send the form again."""
    return RedirectResponse(path, 303)
