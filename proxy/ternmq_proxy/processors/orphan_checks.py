"""Transaction checks: asks a producer for the outcome of a transaction that is still open.

The rules are in `sending.md, Transaction checks`. The broker says when to check, and counts. The check goes to a
producer that publishes to the topic and has a Telemetry stream: the sender of the half message if it is connected, else
the others in turn. A half message of a producer group, as clients of RocketMQ 4.x have them, is checked at members of
that group, and at no one else: others know nothing of its transaction. When a producer disconnects before it answered,
another one gets the check at once; without another, the broker checks again at its next interval. The memory of checks
serves nothing else: a forgotten check can't be passed on.
"""

import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ternmq_common.errors import MessagingError
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.shard.model import OrphanedTransaction, TransactionState
from ternmq_common.shard.transaction_id import TransactionId, transaction_handle
from ternmq_proxy.processors.client_commands import CheckTransaction
from ternmq_proxy.processors.client_settings import NamedTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from ternmq_common.shard.model import StoredMessage
    from ternmq_proxy.handles import HandleForms
    from ternmq_proxy.message_service.interface import MessageService
    from ternmq_proxy.processors.client_commands import ClientCommand
    from ternmq_proxy.processors.clients import ClientRegistry

_log = logging.getLogger(__name__)
CHECKS_MAX = 10_000
CHECK_AGE_MAX_S = 300.0


class CheckedProducer(Protocol):
    """A producer that is connected here."""

    @property
    def client_id(self) -> str: ...

    async def push_command(self, command: "ClientCommand") -> bool:
        """Send a command; return whether it was sent."""


class _SentCheck(NamedTuple):
    client_id: str
    topic: str
    group: str
    sent_s: float


class OrphanChecks:
    """Sends transaction checks to producers, and remembers which, for the latest `checks_max`. `now` is a monotonic
    clock in seconds, `find_group` returns the producer group of a half message, empty if it has none."""

    def __init__(
        self,
        messages: "MessageService",
        clients: "ClientRegistry",
        now: "Callable[[], float]",
        handles: "HandleForms",
        find_group: "Callable[[StoredMessage], str]",
        *,
        checks_max: int = CHECKS_MAX,
    ) -> None:
        self._checks_max = checks_max
        self._messages = messages
        self._clients = clients
        self._now = now
        self._handles = handles
        self._find_group = find_group
        self.find_members: Callable[[str], Sequence[CheckedProducer]] = _find_no_members
        """Returns the members of a producer group that are connected here; the front that has them sets it."""
        self._turns: dict[tuple[str, str], int] = {}  # topic, or else producer group
        self._checks: dict[str, _SentCheck] = {}  # by transaction id, the oldest first
        self._by_client: dict[str, dict[str, None]] = {}  # by client id, the transactions whose checks it got, in order
        self._tasks = BackgroundTasks()

    async def send_check(self, orphan: OrphanedTransaction) -> bool:
        """Send the check to a producer; return whether there was one."""
        tried: set[str] = set()
        group = self._find_group(orphan.message)
        while (client := self._find_producer(orphan, group, tried)) is not None:
            tried.add(client.client_id)
            # A client that terminated meanwhile will not answer.
            if await client.push_command(self._make_command(orphan, client.client_id)) and any(
                each is client for each in self._list_producers(orphan.topic, group)
            ):
                self._remember_check(orphan, group, client.client_id)
                return True
        return False

    def forget_transaction(self, transaction_id: str) -> None:
        """Forget the check of a transaction whose producer answered."""
        check = self._checks.pop(transaction_id, None)
        if check is not None:
            sent = self._by_client[check.client_id]
            del sent[transaction_id]
            if not sent:
                del self._by_client[check.client_id]

    def forget_client(self, client_id: str) -> None:
        """Pass the checks of a client on to others, after it disconnected."""
        self._forget_old()
        open_checks = {name: self._checks[name] for name in self._by_client.get(client_id, ())}
        for transaction_id in open_checks:
            self.forget_transaction(transaction_id)
        if open_checks:
            self._tasks.start(self._pass_on(open_checks), name=f"transaction checks of {client_id}")

    async def close(self) -> None:
        """Stop passing checks on."""
        await self._tasks.stop()

    def _list_producers(self, topic: str, group: str) -> "Sequence[CheckedProducer]":
        return self.find_members(group) if group else self._clients.find_publishers(topic)

    def _find_producer(
        self, orphan: OrphanedTransaction, group: str, tried: "AbstractSet[str]"
    ) -> "CheckedProducer | None":
        candidates = [each for each in self._list_producers(orphan.topic, group) if each.client_id not in tried]
        sender = next((client for client in candidates if client.client_id == orphan.sender), None)
        if sender is not None or orphan.sender_only or not candidates:
            return sender
        key = ("", group) if group else (orphan.topic, "")
        turn = self._turns[key] = self._turns.get(key, -1) + 1
        return candidates[turn % len(candidates)]

    def _make_command(self, orphan: OrphanedTransaction, client_id: str) -> CheckTransaction:
        client = self._clients.find_client(client_id)
        named = None if client is None else client.named_topic(orphan.topic)
        return CheckTransaction(
            transaction_handle(orphan.transaction_id, orphan.topic, self._handles.keys),
            named or NamedTopic(orphan.topic),
            orphan.message,
        )

    def _remember_check(self, orphan: OrphanedTransaction, group: str, client_id: str) -> None:
        self.forget_transaction(orphan.transaction_id)
        self._checks[orphan.transaction_id] = _SentCheck(client_id, orphan.topic, group, self._now())
        self._by_client.setdefault(client_id, {})[orphan.transaction_id] = None
        self._forget_old()

    def _forget_old(self) -> None:
        too_old_s = self._now() - CHECK_AGE_MAX_S
        while self._checks:
            oldest = next(iter(self._checks))
            if self._checks[oldest].sent_s >= too_old_s and len(self._checks) <= self._checks_max:
                return
            self.forget_transaction(oldest)

    async def _pass_on(self, checks: dict[str, _SentCheck]) -> None:
        """Ask other producers about the transactions of checks. The state of each is read first: it may have been ended
        through another proxy, and its message is not kept here."""
        try:
            for transaction_id, check in checks.items():
                if self._list_producers(check.topic, check.group):
                    await self._ask_again(transaction_id)
        except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
            _log.exception("transaction checks could not be passed on; the broker will send them again")

    async def _ask_again(self, transaction_id: str) -> None:
        try:
            transaction, message = await self._messages.inspecting.transaction(TransactionId.parse_id(transaction_id))
        except MessagingError as error:
            _log.debug("transaction %s is not checked again: %s", transaction_id, error)
            return
        if transaction.state is TransactionState.PENDING:
            orphan = OrphanedTransaction(
                transaction_id=transaction_id, topic=transaction.topic, sender=transaction.sender, message=message
            )
            await self.send_check(orphan)


def _find_no_members(group: str) -> "Sequence[CheckedProducer]":
    del group
    return ()
