"""ListAuditEntries of `ternmq.admin.v1.Admin`: what the server that is asked wrote to its audit log.

Workers of a server write a file each, in one folder, and whoever is asked reads all. The proxies of a cluster have
audit logs of their own.
"""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.access.audit_reading.entries import EntryFilter
from ternmq_proxy.access.audit_reading.pages import BadPage, NoFiles
from ternmq_proxy.fronts.grpc.activities.status import OK

if TYPE_CHECKING:
    from ternmq_protos.pool import Timestamp
    from ternmq_proxy.access.audit_reading.entries import AuditEntry
    from ternmq_proxy.access.audit_reading.pages import AuditHistory
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

LIMIT_DEFAULT, LIMIT_MAX = 100, 1000


async def list_audit_entries(
    request: admin_pb2.ListAuditEntriesRequest, call: "Call", services: "Services"
) -> admin_pb2.ListAuditEntriesResponse:
    """A page of the entries, the newest first; PRECONDITION_FAILED where there is no audit log that can be read."""
    del call
    history = _history(services)
    limit = request.limit or LIMIT_DEFAULT
    if not 1 <= limit <= LIMIT_MAX:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"a page has 1 to {LIMIT_MAX} entries, not {limit}")
    try:
        page = await history.load_page(_wanted(request), request.page, limit)
    except BadPage:
        raise MessagingError(ErrorCode.BAD_REQUEST, "page: what the answer before gave is needed") from None
    except NoFiles:
        raise _unreadable(services) from None
    except OSError as error:
        raise MessagingError(
            ErrorCode.INTERNAL_SERVER_ERROR, f"the audit log can't be read: {error.strerror or error}"
        ) from error
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


def _history(services: "Services") -> "AuditHistory":
    if not services.access.is_on:
        raise MessagingError(
            ErrorCode.PRECONDITION_FAILED, "access control is off at this server, so it has no audit log"
        )
    if services.access.history is None:
        raise _unreadable(services)
    return services.access.history


def _unreadable(services: "Services") -> MessagingError:
    return MessagingError(
        ErrorCode.PRECONDITION_FAILED,
        f"{services.process.server} writes its audit log to its own log (logger ternmq_proxy.audit) or to no file; the "
        "setting audit_log can name one, which can be read",
    )


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
