"""Repeats calls while their broker is away, for as long as a restart or the takeover by another replica lasts."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from ternmq_common.shard.calls import CALLS, CallRepeat
from ternmq_common.shard.remote_shard import RemoteShard
from ternmq_proxy.message_service.cluster.background_calls import BackgroundCalls
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerRefused, BrokerUnavailable
from ternmq_proxy.message_service.cluster.repeated_acknowledgements import RepeatedAcknowledgements

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.shard.calls import ShardCall, Values
    from ternmq_proxy.message_service.cluster.broker_links.calls import ResultCallback
    from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks

_ACKNOWLEDGE = CALLS["acknowledge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatTiming:
    """How long a call is repeated, and after which pauses: random, at first up to `pause_s`, then up to twice
    that."""

    repeat_s: float = 1.5
    replicated_s: float = 7.5
    """The default lease, and a second to notice the new leader."""
    pause_s: float = 0.05
    pause_max_s: float = 0.3


REPEAT_TIMING = RepeatTiming()


class RepeatedCalls:
    """Finds a broker by its name, and calls it, repeatedly while it is away."""

    def __init__(
        self,
        links: "BrokerLinks",
        seconds: "Callable[[], float]" = time.monotonic,
        timing: RepeatTiming = REPEAT_TIMING,
    ) -> None:
        self._timing = timing
        self._links = links
        self._background_calls = BackgroundCalls()
        self._acknowledged = RepeatedAcknowledgements(links, seconds)
        self.link_changed = self._acknowledged.link_changed

    def shard_of(self, broker: str) -> RemoteShard:
        """The broker of that name; calls are repeated by the rules of the table."""
        return RemoteShard(lambda call, values: self.ask_broker(broker, call, values))

    async def ask_broker(self, broker: str, call: "ShardCall", values: "Values") -> Any:  # noqa: ANN401 - it is the call's own
        # The first attempt goes without tenacity, which costs more than the call.
        try:
            return await self._ask_once(broker, call, values)
        except BrokerUnavailable as error:
            if not self._is_repeated(broker, call, error):
                raise
        return await self._repeat_call(broker, call, values)

    def ask_nowait(self, broker: str, call: "ShardCall", values: "Values", heard: "ResultCallback") -> None:
        """Call like `ask_broker`, without waiting; `heard` is called at the end, possibly at once."""

        def take_result(result: object, error: Exception | None) -> None:
            if error is not None and self._is_repeated(broker, call, error):
                self._background_calls.start(self._repeat_call(broker, call, values), heard)
                return
            if error is None and call is _ACKNOWLEDGE:
                self._acknowledged.note_acknowledged(broker, *values)
            heard(result, error)

        try:
            self._links.require_broker(broker).ask_nowait(call, values, take_result)
        except Exception as error:  # noqa: BLE001 - the caller gets it, and logs unexpected errors
            take_result(None, error)

    def _is_repeated(self, broker: str, call: "ShardCall", error: Exception) -> bool:
        return _is_repeatable(call.rules.repeat, error) and self._links.find_broker(broker) is not None

    async def _repeat_call(self, broker: str, call: "ShardCall", values: "Values") -> Any:  # noqa: ANN401
        timing = self._timing
        repeated = AsyncRetrying(
            retry=retry_if_exception(lambda error: _is_repeatable(call.rules.repeat, error)),
            stop=stop_after_delay(timing.replicated_s if self._links.is_replicated(broker) else timing.repeat_s),
            wait=wait_random_exponential(multiplier=timing.pause_s, max=timing.pause_max_s),
            reraise=True,
        )
        return await repeated(self._ask_once, broker, call, values)

    async def _ask_once(self, broker: str, call: "ShardCall", values: "Values") -> Any:  # noqa: ANN401
        result = await self._links.require_broker(broker).ask_broker(call, values)
        if call is _ACKNOWLEDGE:
            self._acknowledged.note_acknowledged(broker, *values)
        return result


def _is_repeatable(repeat: CallRepeat, error: BaseException) -> bool:
    # A broker that refuses is there, and has waited for what it lacks.
    if not isinstance(error, BrokerUnavailable) or isinstance(error, BrokerRefused):
        return False
    return repeat is CallRepeat.ALWAYS or (repeat is CallRepeat.UNASKED and not error.maybe_done)
