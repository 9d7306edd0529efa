"""Opens access control as the settings of a process say."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq_common.clock import now_ms
from ternmq_proxy.access.audit import AuditLog
from ternmq_proxy.access.audit_reading.pages import AuditHistory
from ternmq_proxy.access.authentication import RequestAuthentication
from ternmq_proxy.access.control import AccessControl

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from ternmq_common.clock import SystemClock
    from ternmq_common.server_settings import FrontSettings
    from ternmq_proxy.catalog.catalog import Catalog

_FILE = "audit.log"


def open_access(
    settings: "FrontSettings", catalog: "Catalog", clock: "SystemClock", stack: "AsyncExitStack", *, worker: str = ""
) -> AccessControl:
    """Return access control, which is on if the settings say so; `stack` closes its audit log. `worker` names one of
    several processes, each of which writes its own audit log."""
    if not settings.access_control:
        return AccessControl()
    audit = AuditLog(
        audit_path(settings, worker),
        bytes_max=settings.audit_log_bytes,
        files=settings.audit_log_files,
        wall_ms=now_ms,
    )
    stack.push_async_callback(asyncio.to_thread, audit.close)
    authentication = RequestAuthentication(
        lambda: catalog.access_snapshot,
        now_ms=clock.now_ms,
        wall_ms=now_ms,
        window_ms=settings.signature_window_ms,
        local_time=settings.signature_local_time,
    )
    files = audit_path(settings)
    history = None if files is None else AuditHistory(files, audit.flush)
    return AccessControl(lambda: catalog.access_snapshot, authentication, audit, history)


def audit_path(settings: "FrontSettings", worker: str = "") -> Path | None:
    """Return where the audit log is written, None if it goes to the server's log."""
    folder: Path | None = getattr(settings, "data_dir", None)
    if settings.audit_log:
        path = Path(settings.audit_log).expanduser()
    elif folder is not None:
        path = folder / _FILE
    else:
        return None
    return path.with_name(f"{path.stem}.{worker}{path.suffix}") if worker else path
