"""Access control of a process: authenticates callers, checks rights, and revokes running calls that lose them.

Decisions   are cached by user, need, name and host, up to `REMEMBERED_MAX`, until the registry's users or policies
            change. All happen in `require_right` and `has_right`.
Off         without `RequestAuthentication` everything is allowed, and no caller has a name.
Threads     the event loop.
"""

import asyncio
import logging
import time
from contextlib import contextmanager
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final

from ternmq_common.access.decision import AccessVerdict, decide_access
from ternmq_common.access.users import NO_USERS, AccessSnapshot
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_common.signing import SignedAuthorization
from ternmq_proxy.access.authentication import NotAuthenticated
from ternmq_proxy.access.guess_limit import GuessLimit
from ternmq_proxy.access.needs import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ternmq_common.access.decision import AccessRequest, Source
    from ternmq_proxy.access.audit import AuditLog
    from ternmq_proxy.access.audit_reading.pages import AuditHistory
    from ternmq_proxy.access.authentication import RequestAuthentication, UserIdentity
    from ternmq_proxy.access.needs import AccessNeed, NamedNeed
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services
    from ternmq_runtime.http.basic import HttpCaller

_log = logging.getLogger(__name__)
# The name of the HTTP front's restricted paths in the audit log.
_METRICS: Final = "GetMetrics"
AUTHORIZATION: Final = "authorization"
DATE: Final = "x-mq-date-time"
REMEMBERED_MAX: Final = 20_000
_LOOK_EVERY_S: Final = 0.5
# Secrets expire without a change of the registry.
_LOOK_ANYWAY_S: Final = 5.0
# When several processes start together, one of them creates the first user.
_FIRST_USER_S: Final = 5.0
_NOBODY: Final = AccessSnapshot()


class RightsWatch:
    """A long call whose user must keep the rights `needs`; `revoke` ends it, once. None: it is not watched.

    Within it as a context, a cancellation by `revoke` becomes RightsRevoked.
    """

    __slots__ = ("_access", "call", "is_revoked", "needs", "revoke", "rpc")

    def __init__(
        self,
        access: "AccessControl",
        call: "Call",
        rpc: str,
        needs: "list[NamedNeed]",
        revoke: "Callable[[], object] | None",
    ) -> None:
        self._access = access
        self.call, self.rpc, self.needs = call, rpc, needs
        self.revoke = revoke
        self.is_revoked = False

    def take_cancellation(self) -> bool:
        """Whether it was revoked: the task that was cancelled for it goes on then, to say so."""
        task = asyncio.current_task()
        if self.is_revoked and task is not None:
            task.uncancel()
        return self.is_revoked

    def __enter__(self) -> None:
        self._access.watch(self)

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self._access.remove_watch(self)
        if kind is asyncio.CancelledError and self.take_cancellation():
            raise RightsRevoked from None


class RightsRevoked(MessagingError):
    """The user of a call that went on has lost the right to do this."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.UNAUTHORIZED, "the user has lost the right to do this")


class AccessControl:
    """Access control. `snapshot` returns the current users; `authentication` and `audit` are None where it is off.
    `history` reads the files of the audit log, None if there are none."""

    def __init__(
        self,
        snapshot: "Callable[[], AccessSnapshot]" = lambda: _NOBODY,
        authentication: "RequestAuthentication | None" = None,
        audit: "AuditLog | None" = None,
        history: "AuditHistory | None" = None,
    ) -> None:
        assert (authentication is None) == (audit is None)
        self._snapshot = snapshot
        self._authentication = authentication
        self._audit = audit
        self.history = history
        self._verdicts: dict[tuple[str, AccessNeed, str, str], AccessVerdict] = {}
        self._decided_of = snapshot()
        self._watches: set[RightsWatch] = set()
        self._has_logged_no_users = False
        self._guesses = GuessLimit(time.monotonic)

    @property
    def is_on(self) -> bool:
        return self._authentication is not None

    # --- who calls

    def authenticate_call(
        self, headers: "Mapping[str, str]", rpc: str, client_id: str, peer: str
    ) -> "UserIdentity | None":
        """Return the user who signed the call with these headers, None if access control is off. Raises
        NotAuthenticated (UNAUTHORIZED)."""
        if self._authentication is None:
            return None
        header = headers.get(AUTHORIZATION, "")
        authorization = SignedAuthorization.parse_header(header)
        with self._audit_refusals(rpc, client_id, peer, "" if authorization is None else authorization.access_key):
            return self._authentication.authenticate_signature(header, headers.get(DATE, ""))

    def authenticate_content(
        self, access_key: str, signature: bytes, content: bytes, *, rpc: str, client_id: str, peer: str
    ) -> "UserIdentity | None":
        """Return the user who signed a call's content, None if access control is off. Raises NotAuthenticated."""
        if self._authentication is None:
            return None
        with self._audit_refusals(rpc, client_id, peer, access_key):
            return self._authentication.authenticate_content(access_key, signature, content)

    def authenticate_http(self, asker: "HttpCaller", rpc: str) -> "UserIdentity | None":
        """Return the user of an HTTP request, None if access control is off. Raises NotAuthenticated (UNAUTHORIZED)."""
        if self._authentication is None:
            return None
        with self._audit_refusals(rpc, "", f"{asker.host}:0", asker.name):
            return self._authentication.authenticate_password(asker.name, asker.password)

    @contextmanager
    def _audit_refusals(self, rpc: str, client_id: str, peer: str, access_key: str) -> "Iterator[None]":
        """Write refusals within the `with` block to the audit log. It refuses too if the host failed too often with the
        access key that the peer claims."""
        host = peer.rpartition(":")[0].strip("[]")
        assert self._audit is not None
        assert self._authentication is not None
        try:
            if self._guesses.is_reached(host, access_key):
                raise self._authentication.too_many_guesses(access_key)
            yield
        except NotAuthenticated as error:
            if access_key:  # a call without one guesses nothing
                self._guesses.count_wrong(host, access_key)
            self._audit.record_unauthenticated(error.access_key, error.reason, rpc=rpc, client_id=client_id, peer=peer)
            raise

    def is_same(self, identity: "UserIdentity | None", headers: "Mapping[str, str]") -> bool:
        """Return whether the call with these headers certainly is of the same user; if not, `authenticate_call` finds
        out."""
        if self._authentication is None:
            return True
        return identity is not None and self._authentication.is_same(
            identity, headers.get(AUTHORIZATION, ""), headers.get(DATE, "")
        )

    # --- whether he may

    def require_right(self, rpc: str, call: "Call", need: "AccessNeed", name: str) -> None:
        """Raise UNAUTHORIZED unless the user has the right; `rpc` is the call that needs it."""
        if self._authentication is None:
            return
        verdict = self._find_verdict(call, need, name)
        if not verdict.is_allowed:
            question = need.for_resource(name)
            assert self._audit is not None
            self._audit.record_denied(call, rpc, question, verdict.policy)
            raise MessagingError(ErrorCode.UNAUTHORIZED, _refusal_text(call.user, question))

    def require_all(self, rpc: str, call: "Call", *needs: "NamedNeed") -> None:
        """Raise UNAUTHORIZED unless the user has all these rights; `rpc` is the call that needs them."""
        for need, name in dict.fromkeys(needs):
            self.require_right(rpc, call, need, name)

    def require_change(self, rpc: str, call: "Call", *needs: "NamedNeed") -> None:
        """UNAUTHORIZED unless the user may do all of these; then the audit log says that the call is about to change
        them."""
        if self._authentication is None:
            return
        self.require_all(rpc, call, *needs)
        assert self._audit is not None
        self._audit.record_allowed(
            call, rpc, [(each, self._find_verdict(call, *each).policy) for each in dict.fromkeys(needs)]
        )

    def note_own_change(self, rpc: str, call: "Call") -> None:
        """Have the audit log say that the call is about to change the caller's own user, which needs no right."""
        if self._audit is not None:
            self._audit.record_own_change(call, rpc, f"Cluster:users/{call.user}")

    def require_own_client(self, rpc: str, call: "Call", services: "Services") -> None:
        """Raise UNAUTHORIZED if the client id belongs to another user's client, whose messages and commands are not for
        others."""
        client = services.clients.find_client(call.client_id)
        if self._authentication is not None and client is not None and client.user != call.user:
            assert self._audit is not None
            self._audit.record_foreign_client(call, rpc)
            raise MessagingError(
                ErrorCode.UNAUTHORIZED, "another user's client has this id (metadata key x-mq-client-id)"
            )

    def has_right(self, call: "Call", need: "AccessNeed", name: str) -> bool:
        """Return whether the user has the right, where lacking it is no refusal."""
        return self._authentication is None or self._find_verdict(call, need, name).is_allowed

    def may_read_metrics(self, asker: "HttpCaller") -> bool:
        """Return whether the caller may read what the HTTP front serves beside health."""
        if self._authentication is None:
            return True
        try:
            self.authenticate_http(asker, _METRICS)
        except NotAuthenticated:
            return False
        need, resource = METRICS
        return decide_access(
            self._snapshot().users[asker.name], need.for_resource(resource), source_of(asker.host)
        ).is_allowed

    def _find_verdict(self, call: "Call", need: "AccessNeed", name: str) -> AccessVerdict:
        snapshot = self._snapshot()
        if snapshot is not self._decided_of:
            self._decided_of = snapshot
            self._verdicts.clear()
        key = (call.user, need, name, call.peer.rpartition(":")[0])
        verdict = self._verdicts.get(key)
        if verdict is None:
            user = snapshot.users.get(call.user)
            if user is None or not user.is_enabled:
                return AccessVerdict(is_allowed=False)
            verdict = decide_access(user, need.for_resource(name), source_of(key[3]))
            if len(self._verdicts) >= REMEMBERED_MAX:
                self._verdicts.clear()
            self._verdicts[key] = verdict
        return verdict

    # --- calls that go on

    @property
    def watched(self) -> int:
        """How many calls that go on are watched now."""
        return len(self._watches)

    def watching(self, rpc: str, call: "Call", needs: "list[NamedNeed]") -> RightsWatch:
        """Require all of these, and while the call goes on within what is returned, that the user keeps them:
        `call.cancel` ends what waits, and RightsRevoked is raised instead."""
        for need, name in needs:
            self.require_right(rpc, call, need, name)
        return RightsWatch(self, call, rpc, needs, call.cancel)

    def watch(self, watch: RightsWatch) -> None:
        """Revoke it when its user is gone, or has lost one of its rights, until `unwatch`."""
        if self._authentication is not None and watch.revoke is not None:
            self._watches.add(watch)

    def remove_watch(self, watch: RightsWatch) -> None:
        self._watches.discard(watch)

    async def check_rights_forever(self) -> None:
        """Check watched calls, and whether there are any users, forever."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        seen, looked_s = self._snapshot(), began_s
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            now_s = loop.time()
            self.log_missing_users(now_s - began_s)
            if self._snapshot() is seen and now_s - looked_s < _LOOK_ANYWAY_S:
                continue
            seen, looked_s = self._snapshot(), now_s
            try:
                await self.revoke_lost_rights()
            except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
                _log.exception("cannot check which calls have lost their rights; retrying in %g s", _LOOK_EVERY_S)

    def log_missing_users(self, running_s: float) -> None:
        """Log once that there are no users, after a while in which the first may be created, and once that there
        are."""
        if self._authentication is None or self._authentication.has_users:
            if self._has_logged_no_users:
                self._has_logged_no_users = False
                _log.info("there are users now")
        elif not self._has_logged_no_users and running_s >= _FIRST_USER_S:
            self._has_logged_no_users = True
            _log.warning("%s; every call is refused until then", NO_USERS)

    async def revoke_lost_rights(self) -> None:
        """Revoke the watched calls whose rights are gone."""
        turns = WorkTurns()
        for watch in list(self._watches):
            if watch in self._watches and not self._is_still_allowed(watch):
                self._watches.discard(watch)
                assert watch.revoke is not None
                watch.is_revoked = True
                watch.revoke()
            await turns.next_turn()

    def _is_still_allowed(self, watch: RightsWatch) -> bool:
        identity = watch.call.identity
        assert self._authentication is not None
        assert identity is not None
        if not self._authentication.is_still(identity):
            return False
        return all(self._find_verdict(watch.call, need, name).is_allowed for need, name in watch.needs)


def _refusal_text(user: str, question: "AccessRequest") -> str:
    what = f"{question.kind}:{question.name}"
    if not question.actions:
        return f"user {user!r} may not do this; it is for super users only"
    return f"user {user!r} may not do this; it needs {' or '.join(str(question.actions).split(','))} on {what}"


@lru_cache(1024)
def source_of(host: str) -> "Source":
    """Return the address of a host, None for a socket in the file system."""
    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
