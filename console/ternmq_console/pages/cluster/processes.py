"""The pages of the server's processes: their log levels and diagnostics."""

from typing import TYPE_CHECKING

from ternmq_console.pages.base.answering import moved_to, page
from ternmq_console.pages.base.feature import Feature

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.pages.base.asking import Asking
    from ternmq_console.pages.base.forms import Form

HOME = "/console/processes"


async def processes(request: "Request", asking: "Asking", error: str = "", form: "Form | None" = None) -> "Response":
    """Show all processes, with their log levels."""
    return await page(
        request, asking, "cluster/processes.html",
        title="Processes", told=await asking.ask_if_allowed("GetLogLevels"),
        error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


async def diagnostics(request: "Request", asking: "Asking") -> "Response":
    """Show the current diagnostics of each process."""
    return await page(
        request, asking, "cluster/diagnostics.html",
        title="Diagnostics", told=await asking.ask_if_allowed("GetDiagnostics"),
    )  # fmt: skip


async def change_levels(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Change the log levels of all processes, until each ends."""
    del request
    changed = await asking.ask("UpdateLogLevels", levels=form.text("levels"))
    silent = f" No answer from {', '.join(changed.silent)}." if changed.silent else ""
    asking.session.notice = f"The log levels were changed in {len(changed.processes)} processes.{silent}"
    return moved_to(HOME)


FEATURE = Feature(
    homes=(),
    shown={"/processes": processes, "/processes/diagnostics": diagnostics},
    done={"/processes/log-levels": (change_levels, processes)},
)
