"""Reads the audit log of the called server.

Workers of a server write a file each, in one folder, and the called worker reads all. The proxies of a cluster have
audit logs of their own.
"""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_proxy.access.audit_reading.pages import BadPage, NoFiles
from ternmq_proxy.access.needs import SUPER_USER

if TYPE_CHECKING:
    from ternmq_proxy.access.audit_reading.entries import EntryFilter
    from ternmq_proxy.access.audit_reading.pages import AuditHistory, AuditPage
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

LIMIT_DEFAULT, LIMIT_MAX = 100, 1000


async def list_audit_entries(
    wanted: "EntryFilter", page: str, limit: int, call: "Call", services: "Services"
) -> "AuditPage":
    """Return a page of the entries, the newest first; PRECONDITION_FAILED where there is no audit log that can be read.
    A limit of 0 is the usual one."""
    services.access.require_all("ListAuditEntries", call, (SUPER_USER, "audit-log"))
    history = _find_history(services)
    limit = limit or LIMIT_DEFAULT
    if not 1 <= limit <= LIMIT_MAX:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"a page has 1 to {LIMIT_MAX} entries, not {limit}")
    try:
        return await history.load_page(wanted, page, limit)
    except BadPage:
        raise MessagingError(ErrorCode.BAD_REQUEST, "page: what the answer before gave is needed") from None
    except NoFiles:
        raise _unreadable(services) from None
    except OSError as error:
        raise MessagingError(
            ErrorCode.INTERNAL_SERVER_ERROR, f"the audit log can't be read: {error.strerror or error}"
        ) from error


def _find_history(services: "Services") -> "AuditHistory":
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
