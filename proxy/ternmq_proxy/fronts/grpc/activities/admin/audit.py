"""ListAuditEntries of `ternmq.admin.v1.Admin` (`operations/admin/servers/audit_entries.py`)."""

from typing import TYPE_CHECKING

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.access.audit_reading.entries import EntryFilter
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.admin.servers import audit_entries

if TYPE_CHECKING:
    from ternmq_protos.pool import Timestamp
    from ternmq_proxy.access.audit_reading.entries import AuditEntry
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def list_audit_entries(
    request: admin_pb2.ListAuditEntriesRequest, call: "Call", services: "Services"
) -> admin_pb2.ListAuditEntriesResponse:
    """Return a page of the entries, the newest first."""
    page = await audit_entries.list_audit_entries(_wanted(request), request.page, request.limit, call, services)
    answer = admin_pb2.ListAuditEntriesResponse(
        status=OK,
        entries=[_entry(process, entry) for process, entry in page.entries],
        next_page=page.following,
        server=services.process.server,
        damaged=page.damaged,
    )
    if page.reached_ms is not None:
        answer.reached.FromMilliseconds(page.reached_ms)
    return answer


def _wanted(request: admin_pb2.ListAuditEntriesRequest) -> EntryFilter:
    return EntryFilter(
        user=request.user,
        call=request.call,
        resource=request.resource,
        is_allowed=request.allowed if request.HasField("allowed") else None,
        since_ms=_ms(request.since) if request.HasField("since") else None,
        until_ms=_ms(request.until) if request.HasField("until") else None,
    )


def _ms(time: "Timestamp") -> int:
    """Rounded up: entries are exact to the millisecond."""
    return int(time.seconds * 1000 - -time.nanos // 1_000_000)


def _entry(process: str, entry: "AuditEntry") -> admin_pb2.AuditEntry:
    answer = admin_pb2.AuditEntry(
        user=entry.user,
        source=entry.source,
        client_id=entry.client_id,
        call=entry.call,
        resource=entry.resource,
        allowed=entry.is_allowed,
        why=entry.why,
        left_out=entry.left_out,
        process=process,
    )
    answer.time.FromMilliseconds(entry.time_ms)
    return answer
