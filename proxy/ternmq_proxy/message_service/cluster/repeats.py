"""Calls that are made again while their broker is away, for as long as one that restarts needs."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from ternmq_common.errors import MessagingError
from ternmq_proxy.message_service.cluster.calls import BrokerRefused, BrokerUnavailable
from ternmq_proxy.message_service.cluster.remote_broker import RemoteBroker

if TYPE_CHECKING:
    from ternmq_proxy.message_service.cluster.links import Links

T = TypeVar("T")
_REPEAT_S = 1.5


class Repeats:
    """Finds a broker by its name, and calls it."""

    def __init__(self, links: "Links") -> None:
        self._links = links

    async def repeated(self, broker: str, call: Callable[[RemoteBroker], Awaitable[T]]) -> T:
        """A call that a repetition does not harm."""
        return await self._while_away(broker, call, _is_away)

    async def once(self, broker: str, call: Callable[[RemoteBroker], Awaitable[T]]) -> T:
        """A call that is repeated only if the broker was not asked at all."""
        return await self._while_away(broker, call, _was_not_asked)

    async def _while_away(
        self, broker: str, call: Callable[[RemoteBroker], Awaitable[T]], again: Callable[[BaseException], bool]
    ) -> T:
        # The first try goes without tenacity, which costs more than the call.
        try:
            return await call(self._links.broker(broker))
        except MessagingError as error:
            if not again(error) or self._links.find(broker) is None:
                raise
        async for attempt in AsyncRetrying(
            retry=retry_if_exception(again),
            stop=stop_after_delay(_REPEAT_S),
            wait=wait_random_exponential(multiplier=0.05, max=0.3),
            reraise=True,
        ):
            with attempt:
                return await call(self._links.broker(broker))
        raise AssertionError("tenacity ends with a result or an error")


def _is_away(error: BaseException) -> bool:
    # Who refuses is there, and has waited for what it lacks.
    return isinstance(error, BrokerUnavailable) and not isinstance(error, BrokerRefused)


def _was_not_asked(error: BaseException) -> bool:
    return isinstance(error, BrokerUnavailable) and _is_away(error) and not error.maybe_done
