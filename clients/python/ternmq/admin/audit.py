"""The audit log of a server, and its admin call."""

from dataclasses import dataclass
from datetime import datetime

from ternmq.admin.requests.call import AdminCall
from ternmq.admin.requests.checks import check_flag, check_moment, check_text, check_whole
from ternmq.admin.requests.words import read_moment
from ternmq_protos.admin_v1 import admin_pb2

PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One line of the audit log: who called what, from where, and whether it was allowed.

    `resource` is empty where the call has none; `why` is the policy that decided. `left_out`: how many refusals of the
    kind were not written before this one; `process`: the server's process that wrote it, empty if there is only one.
    All texts are as peers sent them."""

    time: datetime | None
    user: str
    source: str
    client_id: str
    call: str
    resource: str
    allowed: bool
    why: str
    left_out: int
    process: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """Some entries, perhaps none although more follow; `next_page` is empty at the end. `server` has answered, and has
    read back to `reached`; `damaged` counts lines that were not entries."""

    entries: tuple[AuditEntry, ...]
    next_page: str
    server: str
    reached: datetime | None
    damaged: int


def audit_page(
    page: str = "",
    *,
    user: str = "",
    call: str = "",
    resource: str = "",
    allowed: bool | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = PAGE,
) -> AdminCall[AuditPage]:
    """Return a page of `list_audit_entries`, which may be empty although more follow; `page` is `next_page` of the
    page before."""
    request = admin_pb2.ListAuditEntriesRequest(
        user=check_text("user", user),
        call=check_text("call", call),
        resource=check_text("resource", resource),
        limit=check_whole("limit", limit, least=1),
        page=check_text("page", page),
    )
    if allowed is not None:
        request.allowed = check_flag("allowed", allowed)
    if since is not None:
        request.since.FromDatetime(check_moment("since", since))
    if until is not None:
        request.until.FromDatetime(check_moment("until", until))
    return AdminCall(request, _read_page)


def _read_page(answer: admin_pb2.ListAuditEntriesResponse) -> AuditPage:
    return AuditPage(
        entries=tuple(map(_read_entry, answer.entries)),
        next_page=answer.next_page,
        server=answer.server,
        reached=read_moment(answer.reached),
        damaged=answer.damaged,
    )


def _read_entry(entry: admin_pb2.AuditEntry) -> AuditEntry:
    return AuditEntry(
        time=read_moment(entry.time),
        user=entry.user,
        source=entry.source,
        client_id=entry.client_id,
        call=entry.call,
        resource=entry.resource,
        allowed=entry.allowed,
        why=entry.why,
        left_out=entry.left_out,
        process=entry.process,
    )
