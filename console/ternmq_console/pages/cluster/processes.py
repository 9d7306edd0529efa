"""The pages of the server's processes: their log levels and diagnostics."""

from typing import TYPE_CHECKING

from ternmq_console.pages.base.feature import PageFeature
from ternmq_console.pages.base.page_response import redirect_to, render_page

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.pages.base.forms import PageForm
    from ternmq_console.pages.base.page_context import PageContext

HOME = "/console/processes"


async def show_processes(
    request: "Request", asking: "PageContext", error: str = "", form: "PageForm | None" = None
) -> "Response":
    """Show all processes, with their log levels."""
    return await render_page(
        request, asking, "cluster/processes.html",
        title="Processes", report=await asking.call_if_allowed("GetLogLevels"),
        error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


async def show_diagnostics(request: "Request", asking: "PageContext") -> "Response":
    """Show the current diagnostics of each process."""
    return await render_page(
        request, asking, "cluster/diagnostics.html",
        title="Diagnostics", report=await asking.call_if_allowed("GetDiagnostics"),
    )  # fmt: skip


async def change_levels(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Change the log levels of all processes, until each ends."""
    del request
    changed = await asking.call_server("UpdateLogLevels", levels=form.text("levels"))
    silent = f" No answer from {', '.join(changed.silent)}." if changed.silent else ""
    asking.session.notice = f"The log levels were changed in {len(changed.processes)} processes.{silent}"
    return redirect_to(HOME)


FEATURE = PageFeature(
    homes=(),
    shown={"/processes": show_processes, "/processes/diagnostics": show_diagnostics},
    done={"/processes/log-levels": (change_levels, show_processes)},
)
