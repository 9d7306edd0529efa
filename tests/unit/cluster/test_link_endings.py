"""The stream to one broker: answers that come late or for nobody, and brokers and proxies that end."""

import asyncio
from unittest.mock import ANY

import pytest

from ternmq_common.errors import MessagingError
from ternmq_protos.storage_v1 import storage_pb2 as storage
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.cluster import link as module
from ternmq_proxy.message_service.cluster.calls import BrokerUnavailable, LateAnswer
from tests.support.scripted_broker import ScriptedStream
from tests.unit.cluster.linked import call, linked, pop, serve

# --- late and cancelled


async def test_a_late_answer_is_taken_by_who_takes_late_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    over = asyncio.Event()

    async def late(stream: ScriptedStream) -> None:
        await stream.welcome()
        asked = await stream.call()
        await over.wait()
        await stream.answer(asked)
        await stream.forever()

    taken: asyncio.Queue[storage.Answer] = asyncio.Queue()
    async with linked(late) as (link, _, told):
        await told.changes.get()
        with pytest.raises(LateAnswer) as caught:
            await link.ask(pop(), timeout_s=0.02, on_late=taken.put_nowait)
        assert caught.value.code == definition_pb2.PROXY_TIMEOUT
        over.set()
        assert (await taken.get()).id == 1
        assert link.connected


async def test_a_cancellation_reaches_the_broker() -> None:
    heard: asyncio.Queue[list[int]] = asyncio.Queue()

    async def listens(stream: ScriptedStream) -> None:
        await stream.welcome()
        while (frame := await stream.frame()) is not None:
            heard.put_nowait([*(each.id for each in frame.calls), *(-number for number in frame.cancelled)])

    async with linked(listens) as (link, _, told):
        await told.changes.get()
        asking = asyncio.create_task(link.ask(call(), cancel=True))
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
        await stream.answer(pop)
        released.put_nowait((await stream.call()).WhichOneof("request"))
        await stream.forever()

    async with linked(late) as (link, _, told):
        await told.changes.get()
        release = storage.ProxyFrame()
        release.calls.add().release.topic = "orders"
        asking = asyncio.create_task(link.ask(pop(), on_late=lambda _: link.tell(release)))
        await asked.wait()
        asking.cancel()
        closing = asyncio.create_task(link.close())
        await asyncio.sleep(0)
        ending.set()
        await closing
        assert await released.get() == "release"


# --- leaving


async def test_a_broker_that_leaves_answers_what_was_asked_and_is_asked_no_more() -> None:
    ended = asyncio.Event()

    async def leaves(stream: ScriptedStream) -> None:
        await stream.welcome()
        asked = await stream.call()
        await stream.say(storage.BrokerFrame(leaving=True))
        while await stream.frame() is not None:
            pass
        ended.set()
        await stream.answer(asked)

    async with linked(leaves, serve) as (link, _, told):
        await told.changes.get()
        asking = asyncio.create_task(link.ask(call()))
        await told.changes.get()
        with pytest.raises(BrokerUnavailable, match="is ending") as caught:
            await link.ask(call())
        assert not caught.value.maybe_done
        await ended.wait()
        assert (await asking).id == 1
        await told.changes.get()
        await told.changes.get()
        assert link.connected


async def test_an_answer_to_a_question_goes_to_the_stream_that_asked() -> None:
    answers: asyncio.Queue[tuple[int, bool]] = asyncio.Queue()

    async def asks(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.say(storage.BrokerFrame(questions=[storage.Question(id=1), storage.Question(id=2)]))
        while (frame := await stream.frame()) is not None:
            for each in frame.question_answers:
                answers.put_nowait((each.id, each.asked))

    async with linked(asks):
        assert sorted([await answers.get(), await answers.get()]) == [(1, True), (2, False)]


async def test_an_error_of_the_broker_is_raised_as_it_is() -> None:
    async def refuses(stream: ScriptedStream) -> None:
        await stream.welcome()
        asked = await stream.call()
        error = definition_pb2.Status(code=definition_pb2.FORBIDDEN, message="no")
        await stream.say(storage.BrokerFrame(answers=[storage.Answer(id=asked.id, error=error)]))
        await stream.forever()

    async with linked(refuses) as (link, _, told):
        await told.changes.get()
        with pytest.raises(MessagingError, match="no") as caught:
            await link.ask(call())
        assert (caught.value.code, caught.value.message) == (definition_pb2.FORBIDDEN, ANY)
