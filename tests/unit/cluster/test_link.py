"""The stream to one broker, against brokers that do what a test says."""

import asyncio
import itertools

import pytest

from ternmq_common.shard import shard_frames
from ternmq_common.shard.calls import CALLS
from ternmq_common.shard.model import PullingMember
from ternmq_common.shard.shard_frames import PeerGreeting
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerUnavailable
from ternmq_proxy.message_service.cluster.broker_links.link import BrokerLink
from ternmq_proxy.message_service.cluster.broker_links.link_timing import LinkTiming
from tests.support.scripted_broker import ScriptedBroker, ScriptedStream, Wire, calls_in, said
from tests.support.until import until
from tests.unit.cluster.linked import BOUNDS, PATIENCE_S, Told, bounds, linked, serve, silent

# --- greeting


async def test_a_call_is_answered() -> None:
    async with linked(serve) as (link, broker, told):
        await told.changes.get()
        assert await bounds(link) == BOUNDS
        greeting = said(broker.streams[0].frames[0])
        assert shard_frames.HELLO.decode_note(greeting["hello"]).name == "proxy"
        assert shard_frames.VERSION.decode_note(greeting["version"]) == 7


async def test_a_broker_that_does_not_welcome_is_not_asked() -> None:
    async with linked(silent, serve, timing=LinkTiming(connect_timeout_s=1.0)) as (link, broker, told):
        await until(lambda: len(broker.streams) == 1)
        with pytest.raises(BrokerUnavailable, match="not reached yet") as caught:
            await bounds(link)
        assert not caught.value.maybe_done
        await told.changes.get()
        assert len(broker.streams) == 2
        await bounds(link)


async def test_another_broker_at_the_address_is_not_asked() -> None:
    async def other(stream: ScriptedStream) -> None:
        await stream.welcome("broker-9")
        await stream.forever()

    async with linked(other) as (link, broker, _):
        await until(lambda: len(broker.streams) >= 2)
        with pytest.raises(BrokerUnavailable, match="broker-9 is at its address"):
            await bounds(link)


async def test_a_stream_that_ends_before_the_welcome_is_made_again() -> None:
    async def ends(stream: ScriptedStream) -> None:
        await stream.frame()

    async with linked(ends, ends, serve) as (link, _, told):
        await told.changes.get()
        await bounds(link)


async def test_a_broker_that_is_ending_welcomes_nobody() -> None:
    async def ending(stream: ScriptedStream) -> None:
        await stream.frame()
        await stream.say(shard_frames.VERSION.encode_note(3), shard_frames.LEAVING.encode_note(None))
        await stream.say(shard_frames.WELCOME.encode_note(PeerGreeting("broker-0")))
        await stream.forever()

    async with linked(ending, serve) as (link, broker, told):
        await told.changes.get()
        assert len(broker.streams) == 2
        assert link.is_connected


async def test_who_pulls_is_told_also_if_it_changes_while_the_broker_greets() -> None:
    greeted, told_members = asyncio.Event(), asyncio.Queue[list[str]]()

    async def slow(stream: ScriptedStream) -> None:
        frame = await stream.frame()
        assert frame is not None
        await greeted.wait()
        await stream.say(shard_frames.WELCOME.encode_note(PeerGreeting("broker-0")))
        while (frame := await stream.frame()) is not None:
            if (presence := said(frame).get("presence")) is not None:
                told_members.put_nowait([member.client_id for member in shard_frames.PRESENCE.decode_note(presence)])

    async with linked(slow) as (link, broker, _):
        await until(lambda: bool(broker.streams and broker.streams[0].frames))
        link.announce_members(b"unsaid", lambda: shard_frames.PRESENCE.encode_note([PullingMember("g", "c")]))
        greeted.set()
        assert await told_members.get() == ["c"]


@pytest.mark.parametrize("takes_changes", [True, False])
async def test_a_broker_hears_what_changed_and_an_older_one_all_members(takes_changes: bool) -> None:
    told: asyncio.Queue[object] = asyncio.Queue()
    first, second = PullingMember("g", "1"), PullingMember("g", "2", ("t",))

    async def listening(stream: ScriptedStream) -> None:
        await stream.frame()
        greeting = PeerGreeting("broker-0", takes_changes=takes_changes)
        await stream.say(shard_frames.WELCOME.encode_note(greeting))
        while (frame := await stream.frame()) is not None:
            for what, piece in said(frame).items():
                if what == "presence":
                    told.put_nowait(shard_frames.PRESENCE.decode_note(piece))
                elif what == "presence_changes":
                    told.put_nowait(tuple(shard_frames.PRESENCE_CHANGES.decode_note(piece)))

    async with linked(listening) as (link, _, events):
        await events.changes.get()
        changes = shard_frames.PRESENCE_CHANGES.encode_note(shard_frames.MemberChanges([second], [first]))
        link.announce_members(changes, lambda: shard_frames.PRESENCE.encode_note([second]))
        assert await told.get() == (([second], [first]) if takes_changes else [second])


# --- losing


async def test_calls_fail_at_once_when_the_stream_ends() -> None:
    async def ends(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.call()

    async with linked(ends, serve) as (link, _, told):
        await told.changes.get()
        with pytest.raises(BrokerUnavailable, match="was lost: it ended the stream") as caught:
            await bounds(link)
        assert caught.value.maybe_done
        assert not link.waiting_count
        await told.changes.get()  # lost
        await told.changes.get()  # found
        await bounds(link)


async def test_a_broker_that_sends_no_frames_is_connected_anew() -> None:
    async def garbage(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.call()
        await stream.write(b"\xff\xff\xff")
        await stream.forever()

    async with linked(garbage, serve) as (link, _, told):
        await told.changes.get()
        with pytest.raises(BrokerUnavailable, match="no frame"):
            await bounds(link)
        await told.changes.get()
        await told.changes.get()
        await bounds(link)


async def test_a_defect_in_taking_a_frame_is_logged_and_the_link_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def word(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.say(shard_frames.READY.encode_note(shard_frames.ReadyNote("g", "orders")))
        await stream.forever()

    told = Told()
    told.fails_at_words = True
    async with linked(word, serve, told=told) as (link, _, _told):
        for _ in range(3):
            await told.changes.get()
        await bounds(link)
    assert "failed unexpectedly" in caplog.text


async def test_a_broker_that_falls_silent_is_lost() -> None:
    async def falls_silent(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.forever()

    # Who answers must not seem silent on a busy machine.
    timing = LinkTiming(look_s=0.02, ping_after_s=0.05, silence_s=1.0)
    async with linked(falls_silent, serve, timing=timing) as (link, broker, told):
        await told.changes.get()
        with pytest.raises(BrokerUnavailable, match="does not answer") as caught:
            await bounds(link, 60.0)  # which must not end before the silence is noticed, on a busy machine
        assert caught.value.maybe_done
        assert any("ping" in said(frame) for frame in broker.streams[0].frames)
        await told.changes.get()
        await told.changes.get()
        answered = broker.streams[1]
        await until(lambda: any("ping" in said(frame) for frame in answered.frames))
        assert link.is_connected


@pytest.mark.parametrize(("out", "back"), [(4 << 20, 0), (0, 4 << 20)], ids=["out", "back"])
async def test_a_line_that_is_slow_is_not_a_broker_that_is_silent(out: int, back: int) -> None:
    timing = LinkTiming(look_s=0.02, ping_after_s=0.05, silence_s=0.3, slow_bytes_per_s=1 << 20)

    async def echo(stream: ScriptedStream) -> None:
        await stream.welcome()
        while (frame := await stream.frame()) is not None:
            for each in calls_in(frame):
                await stream.answer(each, ["x" * back])
            if "ping" in said(frame):
                await stream.say(shard_frames.PONG.encode_note(None))

    told = Told()
    async with ScriptedBroker(echo) as broker, Wire() as wire, asyncio.timeout(PATIENCE_S):
        wire.to, wire.pause_s = broker.address, 0.02
        link = BrokerLink("broker-0", wire.address, told, proxy="proxy", known=lambda: 7, timing=timing)
        link.start()
        await told.changes.get()
        (answer,) = await link.ask_broker(CALLS["pulling_members"], ("g", "x" * out), timeout_s=PATIENCE_S)
        assert len(answer) == back
        assert len(broker.streams) == 1
        await link.close()


@pytest.mark.parametrize("written", [False, True])
async def test_a_call_behind_a_large_one_on_a_slow_line_is_not_late(*, written: bool) -> None:
    async def answers(stream: ScriptedStream) -> None:
        await stream.welcome()
        while (frame := await stream.frame()) is not None:
            for each in calls_in(frame):
                await stream.answer(each, ["member"])

    timing, told = LinkTiming(look_s=0.02, slow_bytes_per_s=1 << 20), Told()
    async with ScriptedBroker(answers) as broker, Wire() as wire, asyncio.timeout(PATIENCE_S):
        wire.to, wire.pause_s = broker.address, 0.02
        link = BrokerLink("broker-0", wire.address, told, proxy="proxy", known=lambda: 7, timing=timing)
        link.start()
        await told.changes.get()
        call = CALLS["pulling_members"]
        large = asyncio.create_task(link.ask_broker(call, ("g", "x" * (4 << 20)), timeout_s=PATIENCE_S))
        await asyncio.sleep(0)
        if written:
            await until(lambda: link.read_figures(set_aside=False).frames_out > 0)
        (small,) = await link.ask_broker(call, ("g", "t"), timeout_s=0.1)
        assert small == "member"
        await large
        await link.close()


async def test_a_proxy_that_stood_still_does_not_take_that_for_the_brokers_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pinged = asyncio.Event()

    async def answers(stream: ScriptedStream) -> None:
        await stream.welcome()
        while (frame := await stream.frame()) is not None:
            for each in calls_in(frame):
                await stream.answer(each, BOUNDS)
            if "ping" in said(frame):
                pinged.set()

    async with linked(answers, timing=LinkTiming(look_s=0.02, silence_s=0.3)) as (link, broker, told):
        await told.changes.get()
        await bounds(link)
        loop = asyncio.get_running_loop()
        clock = loop.time
        monkeypatch.setattr(loop, "time", lambda: clock() + 5)
        await pinged.wait()  # it has looked, and found that it is time to say something
        await bounds(link)
        assert len(broker.streams) == 1


async def test_waits_between_tries_grow() -> None:
    greeted: list[ScriptedStream] = []

    async def ends(stream: ScriptedStream) -> None:
        await stream.welcome()
        greeted.append(stream)

    async with linked(ends) as (_, broker, _told):
        await until(lambda: len(greeted) == 4)
        began_s = broker.began_s[:4]
        gaps = [later - earlier for earlier, later in itertools.pairwise(began_s)]
        for gap, wait_s in zip(gaps, (0.1, 0.2, 0.4), strict=True):
            assert gap >= wait_s


async def test_a_broker_of_which_the_registry_says_that_it_is_back_is_tried_at_once() -> None:
    async def ends(stream: ScriptedStream) -> None:
        await stream.welcome()

    async with linked(ends, serve, timing=LinkTiming(first_retry_s=3600.0, longest_retry_s=3600.0)) as (link, _, told):
        await told.changes.get()
        await told.changes.get()
        link.reconnect_now()
        await told.changes.get()
        assert link.is_connected
