"""Calls for which nobody waits end as those for which somebody does: same brokers asked, same end."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.errors import MessagingError
from ternmq_common.shard.calls import CALLS, ShardCall, Values
from ternmq_common.shard.model import AppendedMessage
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.cluster.broker_links.calls import (
    BrokerRefused,
    BrokerUnavailable,
    LateAnswer,
    ResultCallback,
)
from ternmq_proxy.message_service.cluster.repeats import RepeatedCalls, RepeatTiming

if TYPE_CHECKING:
    from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks

STORED = [AppendedMessage("id", 7)]
OUTCOMES: Sequence[object] = (
    STORED,
    BrokerUnavailable("it was not reached", maybe_done=False),
    BrokerUnavailable("it was lost", maybe_done=True),
    BrokerRefused("not now"),
    LateAnswer("broker-0"),
    MessagingError(definition_pb2.INTERNAL_SERVER_ERROR, "its disk"),
    MessagingError(definition_pb2.TOO_MANY_REQUESTS, "too many"),
    ZeroDivisionError("a bug"),
)
NAMES = ("broker-0", "broker-1", "broker-2")


@dataclass
class Cluster:
    """Its links: `outcomes` come out in turn, the last one for ever; `at_once` says which of
    them come before the broker is asked."""

    outcomes: list[object]
    at_once: list[bool]
    events: list[tuple[str, str]] = field(default_factory=list)

    def require_broker(self, name: str) -> "Broker":
        if name not in NAMES:
            raise BrokerUnavailable(f"there is no broker {name!r}", maybe_done=False)
        return Broker(name, self)

    def find_broker(self, name: str) -> "Broker | None":
        return Broker(name, self) if name in NAMES else None

    def is_replicated(self, _: str) -> bool:
        return False

    def next(self) -> tuple[object, bool]:
        last = len(self.outcomes) == 1
        outcome = self.outcomes[0] if last else self.outcomes.pop(0)
        return outcome, self.at_once[0] if len(self.at_once) == 1 else self.at_once.pop(0)


class Broker:
    def __init__(self, name: str, cluster: Cluster) -> None:
        self._name = name
        self._cluster = cluster

    async def ask_broker(self, call: ShardCall, values: Values) -> object:
        self._cluster.events.append(("asked", f"{self._name} {call.name} {values[0]}"))
        outcome, _ = self._cluster.next()
        await asyncio.sleep(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def ask_nowait(self, call: ShardCall, values: Values, heard: ResultCallback) -> None:
        self._cluster.events.append(("asked", f"{self._name} {call.name} {values[0]}"))
        outcome, at_once = self._cluster.next()
        error = outcome if isinstance(outcome, Exception) else None
        if error is not None and at_once:
            raise error
        ended = (outcome if error is None else None, error)
        asyncio.get_running_loop().call_soon(heard, *ended)


async def heard_of(begin: Callable[[ResultCallback], None]) -> object:
    """The result or the error, `plain`; it comes once."""
    ends: asyncio.Queue[object] = asyncio.Queue()
    begin(lambda result, error: ends.put_nowait(error or result))
    end = await ends.get()
    await asyncio.sleep(0)
    assert ends.empty()
    return plain(end)


async def awaited(work: Awaitable[object]) -> object:
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - it is compared
        return error


CLUSTERS = st.fixed_dictionaries(
    {
        "outcomes": st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=4),
        "at_once": st.lists(st.booleans(), min_size=1, max_size=4),
    }
)


def cluster(facts: dict[str, Any]) -> Cluster:
    return Cluster(**{**facts, "outcomes": list(facts["outcomes"]), "at_once": list(facts["at_once"])})


SOON = RepeatTiming(repeat_s=0.0, pause_s=0.0, pause_max_s=0.0)


@given(facts=CLUSTERS, broker=st.sampled_from([*NAMES, "broker-9"]), name=st.sampled_from(["acknowledge", "leave"]))
def test_a_call_is_repeated_the_same_for_who_does_not_wait(facts: dict[str, Any], broker: str, name: str) -> None:
    call = CALLS[name]

    async def both() -> None:
        waits, told = cluster(facts), cluster(facts)
        ended = await awaited(
            RepeatedCalls(cast("BrokerLinks", waits), timing=SOON).ask_broker(broker, call, ("g", "orders", []))
        )
        repeats = RepeatedCalls(cast("BrokerLinks", told), timing=SOON)
        assert await heard_of(lambda heard: repeats.ask_nowait(broker, call, ("g", "orders", []), heard)) == plain(
            ended
        )
        assert told.events == waits.events

    asyncio.run(both())


def plain(end: object) -> object:
    """What can be compared: of an error its type and text."""
    return (type(end), str(end)) if isinstance(end, Exception) else end
