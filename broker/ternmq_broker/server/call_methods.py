"""The methods that answer a proxy's calls: the broker's method of that name, or one here that does more.

A failure is a MessagingError, or a defect. HA_NOT_AVAILABLE means that nothing was begun: proxies try another broker
then. Handles of settlements come from a `pop`, whose check of the group covers them: handles of a deleted group find
nothing, and create nothing.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from ternmq_broker.upkeep.disk_room import DiskShort
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.filters.filter_cache import FilterCache
from ternmq_common.shard.calls import CALLS
from ternmq_common.shard.model import AppendOutcome
from ternmq_common.shard.shard_frames import InvalidFrame, ShardFailure

if TYPE_CHECKING:
    from ternmq_broker.broker import Broker
    from ternmq_broker.server.deletion_log import DeletionLog
    from ternmq_broker.server.registry_sync import RegistrySync
    from ternmq_common.filters.message_filter import FilterText, MessageFilter
    from ternmq_common.shard.calls import ShardCall, Values
    from ternmq_common.shard.model import AppendRequests, PulledMessages, QueueReaderId, QueueRef
    from ternmq_common.shard.shard import Shard
    from ternmq_common.shard.shard_frames import FramePiece

_log = logging.getLogger(__name__)
DIRECT_CALLS: Final = frozenset({"append_each", "begin_transaction", "end_transaction"})
"""The calls that mostly wait for nothing but the log."""


class CallMethods:
    """The methods for calls. `methods` has all but `pop`, which depends on the calling proxy."""

    def __init__(
        self,
        broker: "Broker",
        deletion_log: "DeletionLog",
        registry_sync: "RegistrySync",
        pulling_members: Callable[[str, str], Awaitable[list[str]]],
    ) -> None:
        shard: Shard = broker
        parts = (shard.sending, shard.consuming, shard.reading, shard.inspecting, shard.administering)
        self._broker = broker
        self._filters = FilterCache()
        self._registry_sync = registry_sync
        self.methods: dict[str, Callable[..., Awaitable[object]]] = {
            **{name: getattr(part, name) for part in parts for name in CALLS if hasattr(part, name)},
            "append_each": self._append_each,
            "pull": self._pull_filtered,
            "forget_topic": deletion_log.delete_topic,
            "forget_group": deletion_log.delete_group,
            "pulling_members": pulling_members,
        }

    def is_up_to_date(self, piece: "FramePiece") -> bool:
        """Whether all deletions before the call's topic and group were created are done.

        Until then nothing of them may be stored or returned: it would be removed with the old topic or group, or be
        taken for it.
        """
        return self._registry_sync.is_synced_to(max(piece.topic_created_version, piece.group_created_version))

    def refuse_deleted(self, piece: "FramePiece", call: "ShardCall", values: "Values") -> None:
        """Raise CONSUMER_GROUP_NOT_FOUND for a group whose deletion its proxy does not know yet.

        What it received now would count for the next group with the same name.
        """
        if piece.group_created_version and self._registry_sync.is_deleted_group(
            call.required_group(values), piece.group_created_version
        ):
            raise MessagingError(
                ErrorCode.CONSUMER_GROUP_NOT_FOUND, f"consumer group {call.required_group(values)!r} was deleted"
            )

    async def when_known(
        self, piece: "FramePiece", call: "ShardCall", values: "Values", method: Callable[..., Awaitable[object]]
    ) -> object:
        """Answer when the deletions are done (`knows`); HA_NOT_AVAILABLE if the registry does not answer in time."""
        # The later of both: waiting for one after the other could take longer than the proxy waits.
        if not await self._registry_sync.wait_to_store(max(piece.topic_created_version, piece.group_created_version)):
            raise self.not_known_yet(piece, call, values)
        self.refuse_deleted(piece, call, values)
        return await call.call_method(method, values)

    def not_known_yet(self, piece: "FramePiece", call: "ShardCall", values: "Values") -> MessagingError:
        """The error for a call whose topic or group is newer than the known deletions."""
        is_topic = piece.topic_created_version >= piece.group_created_version
        kind, name = ("topic", call.required_topic(values)) if is_topic else ("group", call.required_group(values))
        return MessagingError(
            ErrorCode.HA_NOT_AVAILABLE,
            f"broker {self._broker.name} does not know yet what was deleted before {kind} {name!r} was created: "
            "the registry can't be reached",
        )

    async def compile_filter(self, passing: "MessageFilter") -> "MessageFilter":
        """Compile the filter that came as text; ILLEGAL_FILTER_EXPRESSION if it is invalid."""
        return await compile_filter(self._filters, passing)

    def begin_directly(self, what: str, values: "Values", answer: "Callable[[object, Exception | None], None]") -> bool:
        """Begin one of `DIRECT_CALLS`; `answer` gets its result, or its error. Return False, with nothing done, if it
        has to wait for more than the log."""
        if what == "append_each":
            self.append_each_nowait(values[0], lambda outcomes: answer(outcomes, None))
            return True
        if what == "begin_transaction":
            queue, half = values
            return self._broker.sending.begin_transaction_nowait(queue, half, answer)
        topic, transaction, resolution, by_operator = values
        return not by_operator and self._broker.sending.end_transaction_nowait(
            topic, transaction, resolution, lambda error: answer(None, error)
        )

    def append_each_nowait(self, requests: "AppendRequests", done: "Callable[[list[AppendOutcome]], object]") -> None:
        """Do the call without waiting; `done` gets the outcomes when the last one is known."""
        outcomes: dict[int, AppendOutcome] = {}

        sending = self._broker.sending

        def note_outcome(place: int, first: int, error: Exception | None) -> None:
            if error is None:
                log_offset = sending.find_log_offset(requests[place][0], first)
                outcomes[place] = AppendOutcome(first, ErrorCode.OK, log_offset=log_offset)
            else:
                outcomes[place] = AppendOutcome(0, *failure_of("append_each", error))
            if len(outcomes) == len(requests):
                done([outcomes[place] for place in range(len(requests))])

        for place, (queue, messages) in enumerate(requests):
            sending.append_nowait(queue, messages, partial(note_outcome, place))
        if not requests:
            done([])

    async def _append_each(self, requests: "AppendRequests") -> "list[AppendOutcome]":
        all_ended = asyncio.get_running_loop().create_future()
        self.append_each_nowait(requests, lambda outcomes: None if all_ended.done() else all_ended.set_result(outcomes))
        outcomes: list[AppendOutcome] = await all_ended
        return outcomes

    async def _pull_filtered(
        self,
        queue: "QueueRef",
        offset: int,
        passing: "MessageFilter",
        *,
        batch: int,
        poll_s: float,
        reader: "QueueReaderId | None",
    ) -> "PulledMessages":
        compiled = await self.compile_filter(passing)
        return await self._broker.reading.pull(queue, offset, compiled, batch=batch, poll_s=poll_s, reader=reader)


async def compile_filter(filters: FilterCache, passing: "MessageFilter") -> "MessageFilter":
    """Compile the filter that came as text; ILLEGAL_FILTER_EXPRESSION if it is invalid."""
    return await filters.find_filter(cast("FilterText", passing))


def failure_of(what: str, error: Exception) -> ShardFailure:
    """The answer to a call that failed; an unexpected error gets a number that the log has too."""
    if isinstance(error, TimeoutError):
        return ShardFailure(ErrorCode.PROXY_TIMEOUT, "the broker did not answer in time")
    if isinstance(error, DiskShort):
        return ShardFailure(ErrorCode.HA_NOT_AVAILABLE, error.message)
    if isinstance(error, InvalidFrame):
        return ShardFailure(ErrorCode.BAD_REQUEST, f"the broker can't read the call: {error}")
    if isinstance(error, MessagingError):
        return ShardFailure(error.code, error.message)
    number = secrets.token_hex(4)
    _log.error("%s failed unexpectedly, error %s", what, number, exc_info=error)
    return ShardFailure(ErrorCode.INTERNAL_SERVER_ERROR, f"unexpected error; the broker's log has it as error {number}")
