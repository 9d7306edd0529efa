"""Answers the server's transaction checks by the user's checker.

    def check(view: MessageView) -> TransactionResolution:
        return TransactionResolution.COMMIT if order_exists(view.keys[0]) else TransactionResolution.ROLLBACK

COMMIT and ROLLBACK are sent to the server of the check. UNKNOWN, no result, or an exception send nothing: the server
checks again at its next cycle, up to its number of checks (15), after which the message is never delivered.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ternmq.connections.endpoints import Endpoints
from ternmq.errors import ClientError
from ternmq.messages.message_view import MessageView
from ternmq.process.user_function import UserFunction
from ternmq.transactions.transaction import HalfMessage, TransactionResolution
from ternmq_common.event_loop.background_tasks import cancel_tasks
from ternmq_protos.v2 import service_pb2 as rpc

logger = logging.getLogger(__name__)

RUNNING_CHECKS_MAX = 16
CHECKS_MAX = 1024

Checker = Callable[[MessageView], Awaitable[TransactionResolution | None] | TransactionResolution | None]
"""Decides how a transaction ends that the server asks about; `None` and an exception leave it open."""


class TransactionChecks:
    """Runs the checker of one producer: coroutine functions on the event loop, plain functions in threads.

    Invariants: a transaction is checked once at a time, however often the server asks; at most `RUNNING_CHECKS_MAX`
    checks run and `checks_max` exist. Others are dropped: the server asks again.
    """

    def __init__(
        self,
        checker: Checker,
        end: Callable[[HalfMessage, TransactionResolution], Awaitable[None]],
        *,
        client_id: str,
        checks_max: int = CHECKS_MAX,
    ) -> None:
        self._checks_max = checks_max
        self._checker = UserFunction(checker, threads=RUNNING_CHECKS_MAX, name="ternmq-checker")
        self._end = end
        self._client_id = client_id
        self._room = asyncio.Semaphore(RUNNING_CHECKS_MAX)
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._finishing = False

    def begin_check(self, endpoints: Endpoints, command: rpc.RecoverOrphanedTransactionCommand) -> None:
        """Begin to check an orphaned transaction that the server at `endpoints` asks about."""
        transaction_id = command.transaction_id
        view = MessageView(command.message, broker="", endpoints=endpoints)
        if not transaction_id or not view.topic or not view.intact:
            logger.error("%s: %s checks a transaction that can't be read: %r", self._client_id, endpoints, view)
        elif len(self._checks) >= self._checks_max:
            logger.warning("%s: %d checks wait already, one more is dropped", self._client_id, self._checks_max)
        elif not self._finishing and transaction_id not in self._checks:
            half = HalfMessage(command.message.topic, view.message_id, transaction_id, endpoints, view.trace_context)
            check = self._checks[transaction_id] = asyncio.create_task(self._check_transaction(view, half))
            check.add_done_callback(lambda _: self._checks.pop(transaction_id))

    async def finish_checks(self, timeout_s: float) -> None:
        """Wait for the running checks; the server asks another producer about the others."""
        self._finishing = True
        if self._checks:
            _, late = await asyncio.wait(self._checks.values(), timeout=timeout_s)
            if late:
                logger.warning("%s: %d checks were not done in time", self._client_id, len(late))
            await cancel_tasks(late)
        self._checker.close()

    async def _check_transaction(self, view: MessageView, half: HalfMessage) -> None:
        async with self._room:
            if self._finishing:
                return
            resolution = await self._call_checker(view)
            if resolution is TransactionResolution.UNKNOWN:
                return
            try:
                await self._end(half, resolution)
            except ClientError as error:
                logger.warning("%s: a checker's %s failed: %s", self._client_id, resolution.value, error)

    async def _call_checker(self, view: MessageView) -> TransactionResolution:
        try:
            return _checked_resolution(await self._checker(view))
        except Exception:
            logger.exception("the checker failed on %r", view)
            return TransactionResolution.UNKNOWN


def _checked_resolution(result: object) -> TransactionResolution:
    if result is None:
        return TransactionResolution.UNKNOWN
    if isinstance(result, TransactionResolution):
        return result
    raise TypeError(f"a checker returns nothing or a TransactionResolution, not {result!r}")
