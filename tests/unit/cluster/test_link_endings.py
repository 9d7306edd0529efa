"""The stream to one broker: answers that come late or for nobody, and brokers and proxies that end."""

import asyncio
from unittest.mock import ANY

import pytest

from ternmq_common.errors import MessagingError
from ternmq_common.shard import shard_frames
from ternmq_common.shard.calls import CALLS, Values
from ternmq_common.shard.model import DeliveredMessage, OrphanedTransaction, QueueRef, StoredMessage
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerUnavailable, LateAnswer
from ternmq_proxy.message_service.cluster.broker_links.link_timing import LinkTiming
from tests.support.scripted_broker import ScriptedStream, calls_in
from tests.support.until import until
from tests.unit.cluster.linked import BOUNDS, bounds, linked, pop, serve


def orphan(transaction_id: str) -> OrphanedTransaction:
    message = StoredMessage(QueueRef("orders", "broker-0", 0), 0, 0, b"", b"")
    return OrphanedTransaction(transaction_id=transaction_id, topic="orders", sender="p", message=message)


# --- late and cancelled


async def test_a_late_answer_is_taken_by_who_takes_late_ones() -> None:
    over = asyncio.Event()

    async def late(stream: ScriptedStream) -> None:
        await stream.welcome()
        asked = await stream.call()
        await over.wait()
        await stream.answer(asked, [])
        await stream.forever()

    taken: asyncio.Queue[list[DeliveredMessage]] = asyncio.Queue()
    async with linked(late, timing=LinkTiming(look_s=0.01)) as (link, _, told):
        await told.changes.get()
        with pytest.raises(LateAnswer) as caught:
            await pop(link, taken.put_nowait, timeout_s=0.02)
        assert caught.value.code == definition_pb2.PROXY_TIMEOUT
        over.set()
        assert await taken.get() == []
        assert link.is_connected


async def test_a_cancellation_reaches_the_broker() -> None:
    heard: asyncio.Queue[list[int]] = asyncio.Queue()

    async def listens(stream: ScriptedStream) -> None:
        await stream.welcome()
        while (frame := await stream.frame()) is not None:
            cancelled = [-piece.number for piece in frame if piece.what == shard_frames.CANCEL.what]
            heard.put_nowait([*(each.number for each in calls_in(frame)), *cancelled])

    async with linked(listens) as (link, _, told):
        await told.changes.get()
        asking = asyncio.create_task(link.ask_broker(CALLS["progress"], ("g",)))
        assert await heard.get() == [1]
        asking.cancel()
        assert await heard.get() == [-1]
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_messages_for_nobody_are_given_back_before_the_proxy_ends() -> None:
    asked, ending, released = asyncio.Event(), asyncio.Event(), asyncio.Queue[str | None]()

    async def late(stream: ScriptedStream) -> None:
        await stream.welcome()
        pop = await stream.call()
        asked.set()
        await ending.wait()
        await stream.answer(pop, [])
        released.put_nowait((await stream.call()).what)
        await stream.forever()

    async with linked(late) as (link, _, told):
        await told.changes.get()
        release: Values = ("g", "orders", [], False)
        asking = asyncio.create_task(pop(link, lambda _: link.notify_broker(CALLS["release"], release)))
        await asked.wait()
        asking.cancel()
        closing = asyncio.create_task(link.close())
        await asyncio.sleep(0)
        ending.set()
        await closing
        assert await released.get() == "release"


# --- leaving


async def test_a_broker_that_hangs_gets_no_time_to_end_what_is_under_way() -> None:
    asked = asyncio.Event()

    async def hangs(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.call()
        asked.set()
        await stream.forever()

    # Closing would take longer than a test may.
    timing = LinkTiming(look_s=0.01, ping_after_s=0.02, silence_s=3600, close_s=3600)
    async with linked(hangs, timing=timing) as (link, _, told):
        await told.changes.get()
        asking = asyncio.create_task(bounds(link))
        await asked.wait()
        await until(link.is_unresponsive)
        await link.close()
        with pytest.raises(BrokerUnavailable) as caught:
            await asking
        assert caught.value.maybe_done


async def test_a_broker_that_leaves_answers_what_was_asked_and_is_asked_no_more() -> None:
    ended = asyncio.Event()

    async def leaves(stream: ScriptedStream) -> None:
        await stream.welcome()
        asked = await stream.call()
        await stream.say(shard_frames.LEAVING.encode_note(None))
        while await stream.frame() is not None:
            pass
        ended.set()
        await stream.answer(asked, BOUNDS)

    async with linked(leaves, serve) as (link, _, told):
        await told.changes.get()
        asking = asyncio.create_task(bounds(link))
        await told.changes.get()
        with pytest.raises(BrokerUnavailable, match="is ending") as caught:
            await bounds(link)
        assert not caught.value.maybe_done
        await ended.wait()
        assert await asking == BOUNDS
        await told.changes.get()
        await told.changes.get()
        assert link.is_connected


async def test_an_answer_to_a_question_goes_to_the_stream_that_asked() -> None:
    answers: asyncio.Queue[tuple[int, bool]] = asyncio.Queue()

    async def asks(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.say(
            *(shard_frames.TRANSACTION_CHECK.encode_note(orphan(str(number)), number) for number in (1, 2))
        )
        while (frame := await stream.frame()) is not None:
            for piece in frame:
                if piece.what == shard_frames.CHECK_REPLY.what:
                    answers.put_nowait((piece.number, shard_frames.CHECK_REPLY.decode_note(piece)))

    async with linked(asks):
        assert sorted([await answers.get(), await answers.get()]) == [(1, True), (2, False)]


async def test_an_error_of_the_broker_is_raised_as_it_is() -> None:
    async def refuses(stream: ScriptedStream) -> None:
        await stream.welcome()
        asked = await stream.call()
        await stream.refuse(asked, MessagingError(definition_pb2.FORBIDDEN, "no"))
        await stream.forever()

    async with linked(refuses) as (link, _, told):
        await told.changes.get()
        with pytest.raises(MessagingError, match="no") as caught:
            await bounds(link)
        assert (caught.value.code, caught.value.message) == (definition_pb2.FORBIDDEN, ANY)
