"""Calls that are made again while their broker is away, for as long as one that restarts needs."""

from typing import TYPE_CHECKING, Any

from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from ternmq_common.shard.calls import Repeat, remote_shard
from ternmq_proxy.message_service.cluster.calls import BrokerRefused, BrokerUnavailable

if TYPE_CHECKING:
    from ternmq_common.shard.calls import Call, Values
    from ternmq_common.shard.shard import RemoteShard
    from ternmq_proxy.message_service.cluster.links import Links

_REPEAT_S = 1.5


class Repeats:
    """Finds a broker by its name, and calls it."""

    def __init__(self, links: "Links") -> None:
        self._links = links

    def at(self, broker: str) -> "RemoteShard":
        """The broker of that name; calls are repeated by the rules of the table."""
        return remote_shard(lambda call, values: self.ask(broker, call, values))

    async def ask(self, broker: str, call: "Call", values: "Values") -> Any:  # noqa: ANN401 - it is the call's own
        # The first try goes without tenacity, which costs more than the call.
        try:
            return await self._asked(broker, call, values)
        except BrokerUnavailable as error:
            if not _again(call.rules.repeat, error) or self._links.find(broker) is None:
                raise
        repeated = AsyncRetrying(
            retry=retry_if_exception(lambda error: _again(call.rules.repeat, error)),
            stop=stop_after_delay(_REPEAT_S),
            wait=wait_random_exponential(multiplier=0.05, max=0.3),
            reraise=True,
        )
        return await repeated(self._asked, broker, call, values)

    async def _asked(self, broker: str, call: "Call", values: "Values") -> Any:  # noqa: ANN401
        return await self._links.broker(broker).ask(call, values)


def _again(repeat: Repeat, error: BaseException) -> bool:
    # Who refuses is there, and has waited for what it lacks.
    if not isinstance(error, BrokerUnavailable) or isinstance(error, BrokerRefused):
        return False
    return repeat is Repeat.ALWAYS or (repeat is Repeat.UNASKED and not error.maybe_done)
