"""The seam as it is in use: a real link to a real broker, every call of the table, and proxies that mean harm."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest
from grpc import aio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ternmq_common.errors import MessagingError
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.shard import shard_frames
from ternmq_common.shard.calls import CALLS, ShardCall
from ternmq_common.shard.model import (
    HalfMessage,
    HistoryOf,
    LiteAction,
    LiteOffset,
    LiteSync,
    PopOrder,
    TimedMessage,
    TopicSubscription,
    TransactionResolution,
    TransactionState,
)
from ternmq_common.shard.recall_handle import RecallHandle
from ternmq_common.shard.receipt_handle import ReceiptHandle
from ternmq_common.shard.remote_shard import RemoteShard
from ternmq_common.shard.shard_frames import FORM, FramePiece, PeerGreeting
from ternmq_common.shard.transaction_id import TransactionId
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerUnavailable
from tests.support.cluster import BrokerNode, InProcessCluster, running
from tests.support.message_service_conformance import message, order
from tests.support.of_kind import of_kind
from tests.support.scripted_broker import ScriptedStream
from tests.support.until import until
from tests.unit.cluster.linked import bounds, linked, pop, serve
from tests.unit.cluster.test_in_process import queue
from tests.unit.common.test_shard_form import HOSTILE, hints_of

QUEUE = queue("broker-0")
HANDLE = ReceiptHandle("broker-0", 0, 0, 1, 1)
TRANSACTION = TransactionId("id", "broker-0", 0)
NEW = [message(b"x")]
ARGUMENTS: dict[str, tuple[object, ...]] = {
    "append": (QUEUE, NEW),
    "append_each": ([(QUEUE, NEW), (QUEUE, NEW)],),
    "schedule": (QUEUE, [TimedMessage(NEW[0], 0)]),
    "recall": (RecallHandle("orders", "broker-0", 1, "id"),),
    "begin_transaction": (QUEUE, HalfMessage(NEW[0], "producer")),
    "end_transaction": ("orders", TRANSACTION, TransactionResolution.COMMIT, False),
    "transactions": (TransactionState.PENDING, "", "", 5),
    "transaction": (TRANSACTION,),
    "pop": (order(), False),
    "urgency": ("g", "orders", range(4), False),
    "acknowledge": ("g", "orders", [HANDLE]),
    "change_invisible": ("g", "orders", HANDLE, 1000, True),
    "prolong": ("g", "orders", [HANDLE], 1000),
    "release": ("g", "orders", [HANDLE], True),
    "dead_letter": ("g", "orders", HANDLE, 0),
    "pull": (QUEUE, 0, ALL, 5, 0.0, None),
    "wait_for_more": (QUEUE, 0, 0.0),
    "bounds": (QUEUE,),
    "offset_at": (QUEUE, 5),
    "begin_pulling": ("g", QUEUE),
    "committed": ("g", QUEUE),
    "set_committed": ("g", QUEUE, 0, None),
    "skip": ("g", QUEUE, 0),
    "sync_lite": (LiteSync("g", "orders", "c", LiteAction.PARTIAL_ADD, ["a"], LiteOffset.TAIL, 3),),
    "lite_clients": ("g", "%LMQ%$orders$a"),
    "leave": ("g", "c"),
    "lock_queues": ("broker-0", "g", "c", [QUEUE]),
    "unlock_queues": ("broker-0", "g", "c", [QUEUE]),
    "has_locks": ("broker-0", "g"),
    "hold_way": ("broker-0", "g", "pops", "join"),
    "release_way": ("broker-0", "g", "join"),
    "drop_retries": ("g", "orders"),
    "purge": (QUEUE, 0, True),
    "progress": ("g", ["orders"]),
    "subscribed": ([TopicSubscription("g", "orders")],),
    "find_by_key": ("orders", "key", 5),
    "standings": (QUEUE, 0, "id"),
    "content": ("orders",),
    "timers": ("", "", 5),
    "history": (HistoryOf.TOPIC, "orders"),
    "dead_letters": ("g", "broker-0", [0, 1]),
    "find_by_log_offset": ("broker-0", 4096),
    "retry": ("g", "orders", NEW),
    "remaining": ("broker-0",),
    "pulling_members": ("g", "orders"),
    "ask_proxies": ("clients", ""),
    "forget_topic": ("another", 1),
    "forget_group": ("another", 1),
}
# Of what there is none, or not yet.
REFUSED = {
    "sync_lite": definition_pb2.ILLEGAL_TOPIC,
    "end_transaction": definition_pb2.INVALID_TRANSACTION_ID,
    "transaction": definition_pb2.INVALID_TRANSACTION_ID,
    "change_invisible": definition_pb2.INVALID_RECEIPT_HANDLE,
    "recall": definition_pb2.BAD_REQUEST,
    "skip": definition_pb2.BAD_REQUEST,
}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    async with running(tmp_path, brokers=1) as cluster:
        yield cluster


def _method_of(shard: RemoteShard, name: str) -> Callable[..., Awaitable[object]]:
    parts = (shard.sending, shard.consuming, shard.reading, shard.inspecting, shard.administering)
    [method] = [getattr(part, name) for part in parts if hasattr(part, name)]
    found: Callable[..., Awaitable[object]] = method
    return found


async def test_every_call_is_answered_by_the_broker(cluster: InProcessCluster) -> None:
    broker = cluster.service.links.require_broker("broker-0")
    # First those that are refused, while there is nothing yet that they could find.
    for call in sorted(CALLS.values(), key=lambda call: call.name not in REFUSED):
        code, text = 0, ""
        try:
            await call.call_method(_method_of(broker.shard, call.name), ARGUMENTS[call.name])
        except MessagingError as error:
            code, text = error.code, error.message
        assert (call.name, code, "can't read" in text) == (call.name, REFUSED.get(call.name, 0), False)
        assert broker.link.is_connected


def few_queues(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Who asks for four billion queues gets them, one after the other."""
    return tuple(
        msgspec.structs.replace(each, queues=range(4)) if isinstance(each, PopOrder) else each for each in values
    )


# Longer than a machine with much else to do may stand still.
TIMEOUT_S = 60.0


@st.composite
def any_calls(draw: st.DrawFn) -> tuple[ShardCall, tuple[Any, ...]]:
    call = draw(st.sampled_from(list(CALLS.values())))
    kinds = {name: kind for name, kind in hints_of(call).items() if name != "return"}
    values = [0.0 if name == "poll_s" else draw(of_kind(kind)) for name, kind in kinds.items()]
    return call, few_queues(tuple(values))


@given(asked=any_calls())
@settings(max_examples=3 * settings().max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_whatever_is_asked_is_answered(
    cluster: InProcessCluster, asked: tuple[ShardCall, tuple[Any, ...]]
) -> None:
    call, values = asked
    broker = cluster.service.links.require_broker("broker-0")
    result: object = (
        await asyncio.gather(broker.link.ask_broker(call, values, timeout_s=TIMEOUT_S), return_exceptions=True)
    )[0]
    assert not isinstance(result, BrokerUnavailable)
    if isinstance(result, MessagingError):
        assert result.code not in (definition_pb2.NOT_IMPLEMENTED, definition_pb2.PROXY_TIMEOUT)
        assert "can't read" not in result.message
    else:
        assert not isinstance(result, BaseException)
    assert broker.link.is_connected


# --- who means harm


class Stranger:
    """A proxy that sends whatever the test wants."""

    def __init__(self, channel: aio.Channel) -> None:
        self._stream = channel.stream_stream("/ternmq.storage.v1.Storage/Exchange")()
        self._heard: dict[int, FramePiece] = {}

    async def say(self, frame: bytes) -> None:
        await self._stream.write(frame)

    async def heard(self, number: int) -> FramePiece:
        """The answer to that call."""
        while number not in self._heard:
            data = await self._stream.read()
            assert data is not aio.EOF
            self._heard |= {piece.number: piece for piece in shard_frames.decode_frame(data)}
        return self._heard[number]

    async def ended(self) -> str:
        """Why the broker refuses to hear more."""
        with pytest.raises(aio.AioRpcError) as caught:
            await self.heard(-1)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        return caught.value.details() or ""


@pytest.fixture
async def node(cluster: InProcessCluster) -> AsyncIterator[BrokerNode]:
    """One to which strangers connect, beside the cluster's own proxy, which must not feel it."""
    node = cluster.nodes[0]
    yield node
    await until(lambda: len(node.proxies) == 1)
    assert cluster.service.links.is_connected("broker-0")
    (stored,) = await cluster.service.sending.append(QUEUE, NEW)
    assert await cluster.service.inspecting.find_by_key("orders", stored.message_id, 1)


@pytest.fixture
async def stranger(node: BrokerNode) -> AsyncIterator[Stranger]:
    async with aio.insecure_channel(node.address) as channel:
        yield Stranger(channel)


def note(what: str, body: object) -> bytes:
    return shard_frames.join_pieces([shard_frames.encode_piece(what, 1, body)])


NO_NOTES = {
    "a greeting that is none": note("hello", "hello"),
    "a version that is none": note("version", "five"),
    "members that are none": note("presence", [["g"]]),
}


async def test_what_is_no_frame_ends_the_stream_with_one_line(
    node: BrokerNode, caplog: pytest.LogCaptureFixture
) -> None:
    for name, data in {**{each.name: each.data for each in HOSTILE}, **NO_NOTES}.items():
        caplog.clear()
        async with aio.insecure_channel(node.address) as channel:
            stranger = Stranger(channel)
            await stranger.say(shard_frames.join_pieces([shard_frames.HELLO.encode_note(PeerGreeting("stranger"))]))
            await stranger.say(data)
            assert f"no valid frame of form {FORM}" in await stranger.ended(), name
        (line,) = [record.message for record in caplog.records if record.levelname == "ERROR"]
        assert line.startswith(f"proxy stranger: it sent an invalid frame of form {FORM}: "), name


async def test_a_proxy_that_says_another_form_is_told_so(stranger: Stranger, caplog: pytest.LogCaptureFixture) -> None:
    await stranger.say(
        shard_frames.join_pieces(
            [shard_frames.HELLO.encode_note(PeerGreeting("later", "9.0", FORM + 1)), b"\x91\xa5other"]
        )
    )
    why = f"frame of form {FORM}: it is of form {FORM + 1}; run proxies and brokers of one version"
    assert why in await stranger.ended()
    assert why in caplog.text


async def test_notes_that_are_not_known_are_stepped_over(stranger: Stranger) -> None:
    await stranger.say(
        shard_frames.join_pieces(
            [shard_frames.encode_piece("later", 0, {"a": [1]}), CALLS["bounds"].encode_call(5, (QUEUE,))]
        )
    )
    assert (await stranger.heard(5)).what == shard_frames.ANSWER


UNREADABLE: list[tuple[str, object]] = [
    ("bounds", [["orders", "broker-0", -1]]),
    ("bounds", [["orders", "broker-0", 2**32]]),
    ("bounds", "orders"),
    ("bounds", None),
    ("append", [["orders", "broker-0", 0], [["no bytes", 5, "id", [], ""]]]),
    ("append", [["orders", "broker-0", 0], [[b"", b"", b"\xff", [], ""]]]),
    ("wait_for_more", [["orders", "broker-0", 0], 0, -1.0]),
    ("pop", [["g", "t", 4, ["*", False], -1, 1], False]),
]


async def test_a_call_that_can_not_be_read_is_refused_alone(stranger: Stranger) -> None:
    for number, (name, arguments) in enumerate(UNREADABLE):
        unreadable, good = 10 + 2 * number, 11 + 2 * number
        frame = shard_frames.join_pieces(
            [shard_frames.encode_piece(name, unreadable, arguments), CALLS["bounds"].encode_call(good, (QUEUE,))]
        )
        await stranger.say(frame)
        refused = shard_frames.FAILED.decode_note(await stranger.heard(unreadable))
        assert (arguments, refused.code) == (arguments, definition_pb2.BAD_REQUEST)
        assert f"the broker can't read the call: {name!r}: " in refused.message
        assert (await stranger.heard(good)).what == shard_frames.ANSWER


async def test_a_read_that_is_cancelled_before_it_began_ends(stranger: Stranger, cluster: InProcessCluster) -> None:
    node = cluster.nodes[0]
    waits = CALLS["wait_for_more"].encode_call(4, (QUEUE, 0, 1000.0))
    await stranger.say(
        shard_frames.join_pieces(
            [waits, shard_frames.CANCEL.encode_note(None, 4), shard_frames.CANCEL.encode_note(None, 5)]
        )
    )
    await stranger.say(shard_frames.join_pieces([CALLS["bounds"].encode_call(6, (QUEUE,))]))
    assert (await stranger.heard(6)).what == shard_frames.ANSWER
    assert not node.proxies._connections[-1]._tasks


# --- brokers of another kind


async def test_a_broker_that_says_another_form_is_not_asked() -> None:
    async def later(stream: ScriptedStream) -> None:
        await stream.frame()
        await stream.say(shard_frames.WELCOME.encode_note(PeerGreeting("broker-0", "9.0", FORM + 1)))
        await stream.forever()

    async with linked(later) as (link, broker, _):
        await until(lambda: len(broker.streams) >= 2)
        with pytest.raises(BrokerUnavailable, match=f"it says form {FORM + 1}, not {FORM}; let proxies and brokers"):
            await bounds(link)


@pytest.mark.parametrize("result", [["no bounds"], {"minimum": -(2**63), "maximum": 2**63}, None])
async def test_an_answer_that_is_none_loses_its_broker_and_what_was_asked(result: object) -> None:
    async def lies(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.answer(await stream.call(), result)
        await stream.forever()

    async with linked(lies, serve) as (link, _, told):
        await told.changes.get()
        with pytest.raises(BrokerUnavailable, match=f"what is no frame of form {FORM}") as caught:
            await bounds(link)
        assert caught.value.maybe_done
        assert not link.waiting_count


async def test_a_late_answer_that_is_none_loses_its_broker_too() -> None:
    asked = asyncio.Event()

    async def lies(stream: ScriptedStream) -> None:
        await stream.welcome()
        call = await stream.call()
        asked.set()
        await stream.call()
        await stream.answer(call, "no messages")
        await stream.forever()

    async with linked(lies, serve) as (link, _, told):
        await told.changes.get()
        popping = asyncio.create_task(pop(link, lambda _: pytest.fail("that is no result")))
        await asked.wait()
        popping.cancel()
        with pytest.raises(BrokerUnavailable, match="no frame"):
            await bounds(link)
