"""The stream to one broker, against brokers that do what a test says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import ANY

import pytest

from ternmq_common.errors import MessagingError
from ternmq_protos.storage_v1 import storage_pb2 as storage
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.cluster import link as module
from ternmq_proxy.message_service.cluster import set_aside
from ternmq_proxy.message_service.cluster.calls import BrokerUnavailable, LateAnswer
from ternmq_proxy.message_service.cluster.link import BrokerLink
from tests.support.scripted_broker import Script, ScriptedBroker, ScriptedStream
from tests.support.until import until

PATIENCE_S = 10.0


class Told:
    """What a link told."""

    def __init__(self) -> None:
        self.changes: asyncio.Queue[str] = asyncio.Queue()
        self.words: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue()
        self.fails_at_words = False

    def link_changed(self, broker: str) -> None:
        self.changes.put_nowait(broker)

    def ready(self, broker: str, group: str, topic: str) -> None:
        if self.fails_at_words:
            raise RuntimeError("a defect")
        self.words.put_nowait((broker, group, topic))

    def version_told(self, version: int) -> None: ...

    async def question(self, question: storage.Question, broker: str) -> bool:
        del broker
        return question.id == 1


@asynccontextmanager
async def linked(*scripts: Script, told: Told | None = None) -> AsyncIterator[tuple[BrokerLink, ScriptedBroker, Told]]:
    told = told or Told()
    async with ScriptedBroker(*scripts) as broker, asyncio.timeout(PATIENCE_S):
        link = BrokerLink("broker-0", broker.address, told, proxy="proxy", known=lambda: 7)
        link.start()
        try:
            yield link, broker, told
        finally:
            await link.close()


def call() -> storage.ProxyFrame:
    frame = storage.ProxyFrame()
    frame.calls.add().bounds.topic = "orders"
    return frame


def pop() -> storage.ProxyFrame:
    frame = storage.ProxyFrame()
    frame.calls.add().pop.topic = "orders"
    return frame


async def serve(stream: ScriptedStream) -> None:
    """A broker that answers everything."""
    await stream.welcome()
    while (frame := await stream.frame()) is not None:
        for each in frame.calls:
            await stream.answer(each)
        if frame.ping:
            await stream.say(storage.BrokerFrame(pong=frame.ping))


async def silent(stream: ScriptedStream) -> None:
    await stream.forever()


# --- greeting


async def test_a_call_is_answered() -> None:
    async with linked(serve) as (link, broker, told):
        await told.changes.get()
        answer = await link.ask(call())
        assert answer.id == 1
        hello = broker.streams[0].frames[0]
        assert (hello.hello.proxy, hello.registry_version) == ("proxy", 7)


async def test_a_broker_that_does_not_welcome_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECT_TIMEOUT_S", 0.1)
    async with linked(silent, serve) as (link, broker, told):
        await until(lambda: len(broker.streams) == 1)
        with pytest.raises(BrokerUnavailable, match="not reached yet") as caught:
            await link.ask(call())
        assert not caught.value.maybe_done
        await told.changes.get()
        assert len(broker.streams) == 2
        await link.ask(call())


async def test_another_broker_at_the_address_is_not_asked() -> None:
    async def other(stream: ScriptedStream) -> None:
        await stream.welcome("broker-9")
        await stream.forever()

    async with linked(other) as (link, broker, _):
        await until(lambda: len(broker.streams) >= 2)
        with pytest.raises(BrokerUnavailable, match="broker-9 is at its address"):
            await link.ask(call())


async def test_a_stream_that_ends_before_the_welcome_is_made_again() -> None:
    async def ends(stream: ScriptedStream) -> None:
        await stream.frame()

    async with linked(ends, ends, serve) as (link, _, told):
        await told.changes.get()
        await link.ask(call())


async def test_a_broker_that_is_ending_welcomes_nobody() -> None:
    async def ending(stream: ScriptedStream) -> None:
        await stream.frame()
        await stream.say(storage.BrokerFrame(registry_version=3, leaving=True))
        await stream.say(storage.BrokerFrame(welcome=storage.Welcome(broker="broker-0")))
        await stream.forever()

    async with linked(ending, serve) as (link, broker, told):
        await told.changes.get()
        assert len(broker.streams) == 2
        assert link.connected


async def test_who_pulls_is_told_also_if_it_changes_while_the_broker_greets() -> None:
    greeted, told_members = asyncio.Event(), asyncio.Queue[list[str]]()

    async def slow(stream: ScriptedStream) -> None:
        frame = await stream.frame()
        assert frame is not None
        await greeted.wait()
        await stream.say(storage.BrokerFrame(welcome=storage.Welcome(broker="broker-0")))
        while (frame := await stream.frame()) is not None:
            if frame.HasField("presence"):
                told_members.put_nowait([member.client_id for member in frame.presence.members])

    async with linked(slow) as (link, broker, _):
        await until(lambda: bool(broker.streams and broker.streams[0].frames))
        link.announce(storage.Presence(members=[storage.Member(group="g", client_id="c")]))
        greeted.set()
        assert await told_members.get() == ["c"]


# --- losing


async def test_calls_fail_at_once_when_the_stream_ends() -> None:
    async def ends(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.call()

    async with linked(ends, serve) as (link, _, told):
        await told.changes.get()
        with pytest.raises(BrokerUnavailable, match="was lost: it ended the stream") as caught:
            await link.ask(call())
        assert caught.value.maybe_done
        assert not link.waiting
        await told.changes.get()  # lost
        await told.changes.get()  # found
        await link.ask(call())


async def test_a_broker_that_sends_no_frames_is_connected_anew() -> None:
    async def garbage(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.call()
        await stream.write(b"\xff\xff\xff")
        await stream.forever()

    async with linked(garbage, serve) as (link, _, told):
        await told.changes.get()
        with pytest.raises(BrokerUnavailable, match="no frame"):
            await link.ask(call())
        await told.changes.get()
        await told.changes.get()
        await link.ask(call())


async def test_a_defect_in_taking_a_frame_is_logged_and_the_link_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def word(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.say(storage.BrokerFrame(ready=[storage.Ready(group="g", topic="orders")]))
        await stream.forever()

    told = Told()
    told.fails_at_words = True
    async with linked(word, serve, told=told) as (link, _, _told):
        for _ in range(3):
            await told.changes.get()
        await link.ask(call())
    assert "failed unexpectedly" in caplog.text


async def test_a_broker_that_falls_silent_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("LOOK_S", 0.02), ("PING_AFTER_S", 0.05), ("SILENCE_S", 0.2)):
        monkeypatch.setattr(module, name, seconds)

    async def falls_silent(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.forever()

    async with linked(falls_silent, serve) as (link, broker, told):
        await told.changes.get()
        with pytest.raises(BrokerUnavailable, match="does not answer") as caught:
            await link.ask(call())
        assert caught.value.maybe_done
        assert any(frame.ping for frame in broker.streams[0].frames)
        await told.changes.get()
        await told.changes.get()
        answered = broker.streams[1]
        await until(lambda: any(frame.ping for frame in answered.frames))
        assert link.connected


async def test_a_proxy_that_stood_still_does_not_take_that_for_the_brokers_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.02)
    monkeypatch.setattr(module, "SILENCE_S", 0.3)
    async with linked(serve) as (link, broker, told):
        await told.changes.get()
        await link.ask(call())
        loop = asyncio.get_running_loop()
        clock = loop.time
        monkeypatch.setattr(loop, "time", lambda: clock() + 5)
        await asyncio.sleep(0.1)
        await link.ask(call())
        assert len(broker.streams) == 1


async def test_waits_between_tries_grow() -> None:
    async def ends(stream: ScriptedStream) -> None:
        await stream.welcome()

    async with linked(ends) as (_, broker, _told):
        await until(lambda: len(broker.streams) == 4)
        gaps = [later - earlier for earlier, later in zip(broker.began_s, broker.began_s[1:], strict=False)]
        for gap, wait_s in zip(gaps, (0.1, 0.2, 0.4), strict=True):
            assert gap >= wait_s


async def test_a_broker_of_which_the_registry_says_that_it_is_back_is_tried_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(set_aside, "FIRST_S", 3600.0)
    monkeypatch.setattr(set_aside, "LONGEST_S", 3600.0)

    async def ends(stream: ScriptedStream) -> None:
        await stream.welcome()

    async with linked(ends, serve) as (link, _, told):
        await told.changes.get()
        await told.changes.get()
        link.hurry()
        await told.changes.get()
        assert link.connected


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
