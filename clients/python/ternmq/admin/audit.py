"""The audit log of a server, and its admin call."""

from dataclasses import dataclass
from datetime import datetime

from ternmq.admin.call import AdminCall
from ternmq.admin.checks import flag, moment, text, whole
from ternmq.admin.words import moment_of
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


def list_page(
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
    """List entries, the newest first; `page` is `next_page` of the page before."""
    request = admin_pb2.ListAuditEntriesRequest(
        user=text("user", user),
        call=text("call", call),
        resource=text("resource", resource),
        limit=whole("limit", limit, least=1),
        page=text("page", page),
    )
    if allowed is not None:
        request.allowed = flag("allowed", allowed)
    if since is not None:
        request.since.FromDatetime(moment("since", since))
    if until is not None:
        request.until.FromDatetime(moment("until", until))
    return AdminCall("ListAuditEntries", request, admin_pb2.ListAuditEntriesResponse, _page)


def _page(answer: admin_pb2.ListAuditEntriesResponse) -> AuditPage:
    return AuditPage(
        entries=tuple(map(_entry, answer.entries)),
        next_page=answer.next_page,
        server=answer.server,
        reached=moment_of(answer.reached),
        damaged=answer.damaged,
    )


def _entry(entry: admin_pb2.AuditEntry) -> AuditEntry:
    return AuditEntry(
        time=moment_of(entry.time),
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
