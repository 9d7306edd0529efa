"""Who waits for which answer: whatever happens, an answer that comes goes to its waiter or to who takes late ones."""

import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ternmq_common.errors import MessagingError
from ternmq_common.shard import shard_frames
from ternmq_common.shard.calls import CALLS
from ternmq_common.shard.shard_frames import FramePiece, InvalidFrame
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerUnavailable, LateAnswer, LinkCalls

NEVER_S = 1e9


ASKED = CALLS["pulling_members"]


def answer(number: int) -> FramePiece:
    """Its number again, as text."""
    (piece,) = shard_frames.decode_frame(
        shard_frames.join_pieces([shard_frames.encode_piece(shard_frames.ANSWER, number, [str(number)])])
    )
    return piece


async def test_an_answer_in_the_moment_of_the_cancellation_is_not_lost() -> None:
    calls, late = LinkCalls("broker-0"), list[list[str]]()

    async def waiter() -> None:
        future = calls.add_call(1, ASKED, NEVER_S, late.append)
        try:
            await future
        except asyncio.CancelledError:
            calls.abandon_call(1, future, late.append)
            raise

    task = asyncio.create_task(waiter())
    await asyncio.sleep(0)
    calls.finish_call(answer(1))
    task.cancel()  # the answer is there, and the waiter has not run yet
    with pytest.raises(asyncio.CancelledError):
        await task
    assert late == [["1"]]


async def test_what_was_not_sent_can_not_have_been_done() -> None:
    calls = LinkCalls("broker-0")
    sent, unsent = calls.add_call(1, ASKED, NEVER_S, None), calls.add_call(2, ASKED, NEVER_S, None)
    assert calls.fail_all_calls("it is gone", sent_up_to=1) == 2
    for future, maybe_done in ((sent, True), (unsent, False)):
        error = future.exception()
        assert isinstance(error, BrokerUnavailable)
        assert error.maybe_done is maybe_done


async def test_a_broker_that_answers_nothing_is_not_asked_without_end() -> None:
    calls = LinkCalls("broker-0", calls_max=3)
    waiting = [calls.add_call(number, ASKED, 1.0, lambda _: None) for number in range(2)]
    assert calls.expire_calls(2.0) == 2
    assert all(isinstance(future.exception(), LateAnswer) for future in waiting)
    assert not calls.is_full
    calls.add_call(2, ASKED, NEVER_S, None)
    assert calls.is_full


async def test_idle_waits_for_late_answers_too() -> None:
    calls = LinkCalls("broker-0")
    await calls.wait_idle()
    future = calls.add_call(1, ASKED, NEVER_S, lambda _: None)
    calls.abandon_call(1, future, lambda _: None)
    idle = asyncio.ensure_future(calls.wait_idle())
    await asyncio.sleep(0)
    assert not idle.done()
    calls.finish_call(answer(1))
    await idle


async def test_a_failure_goes_to_who_waits_and_to_nobody_else() -> None:
    calls = LinkCalls("broker-0")
    future = calls.add_call(1, ASKED, NEVER_S, lambda _: pytest.fail("that is no result"))
    error = MessagingError(definition_pb2.FORBIDDEN, "no")
    calls.fail_call(1, error)
    assert future.exception() is error
    late = calls.add_call(2, ASKED, NEVER_S, lambda _: pytest.fail("that is no result"))
    calls.abandon_call(2, late, lambda _: None)
    calls.fail_call(2, error)
    calls.fail_call(3, error)
    await calls.wait_idle()


async def test_an_answer_that_is_another_calls_is_no_frame() -> None:
    calls = LinkCalls("broker-0")
    future = calls.add_call(1, CALLS["bounds"], NEVER_S, None)
    with pytest.raises(InvalidFrame, match=r"Expected `object`, got `array`"):
        calls.finish_call(answer(1))
    calls.fail_all_calls("it sent what is no frame", sent_up_to=1)
    assert isinstance(future.exception(), BrokerUnavailable)


class Ear:
    """One who does not wait, and what it heard."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, type[Exception] | None]] = []

    def __call__(self, result: object, error: Exception | None) -> None:
        self.heard.append((result, None if error is None else type(error)))


async def test_who_does_not_wait_hears_the_answer_or_the_error() -> None:
    calls, one, other = LinkCalls("broker-0"), Ear(), Ear()
    calls.add_callback_call(1, ASKED, NEVER_S, one)
    calls.add_callback_call(2, ASKED, NEVER_S, other)
    assert (len(calls), one.heard) == (2, [])
    calls.finish_call(answer(1))
    calls.fail_call(2, MessagingError(definition_pb2.FORBIDDEN, "no"))
    assert (one.heard, other.heard) == ([(["1"], None)], [(None, MessagingError)])
    await calls.wait_idle()


async def test_who_does_not_wait_hears_that_no_answer_came_in_time_and_nothing_of_one_that_comes_late() -> None:
    calls, ear = LinkCalls("broker-0"), Ear()
    calls.add_callback_call(1, ASKED, 1.0, ear)
    assert calls.expire_calls(0.5) == 0
    assert calls.expire_calls(1.5) == 1
    calls.finish_call(answer(1))
    calls.fail_call(1, MessagingError(definition_pb2.FORBIDDEN, "no"))
    assert calls.fail_all_calls("it is gone", sent_up_to=1) == 0
    assert ear.heard == [(None, LateAnswer)]
    await calls.wait_idle()


async def test_who_does_not_wait_hears_that_the_broker_is_lost_and_may_ask_again_at_once() -> None:
    calls, errors, again = LinkCalls("broker-0"), list[Exception | None](), Ear()

    def heard(_: object, error: Exception | None) -> None:
        errors.append(error)
        calls.add_callback_call(9, ASKED, NEVER_S, again)

    calls.add_callback_call(1, ASKED, NEVER_S, heard)
    calls.add_callback_call(2, ASKED, NEVER_S, heard)
    assert calls.fail_all_calls("it is gone", sent_up_to=1) == 2
    assert [error.maybe_done for error in errors if isinstance(error, BrokerUnavailable)] == [True, False]
    calls.finish_call(answer(9))
    assert again.heard == [(["9"], None)]


async def test_what_one_raises_that_is_told_keeps_no_other_from_hearing() -> None:
    calls, ear, failures = LinkCalls("broker-0"), Ear(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))

    def fails(_: object, error: Exception | None) -> None:
        raise ValueError(error)

    calls.add_callback_call(1, ASKED, NEVER_S, fails)
    calls.add_callback_call(2, ASKED, NEVER_S, ear)
    calls.fail_all_calls("it is gone", sent_up_to=0)
    assert ear.heard == [(None, BrokerUnavailable)]
    assert [type(failure) for failure in failures] == [ValueError]


class EveryAnswerArrives(RuleBasedStateMachine):
    """Answers come in any order, in time or late, to waiters that are there or gone."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.loop = self.runner.get_loop()
        self.calls = LinkCalls("broker-0")
        self.tasks: dict[int, asyncio.Task[str]] = {}
        self.late: list[int] = []
        self.to_come: set[int] = set()
        self.arrived: set[int] = set()
        self.now = 0.0

    def teardown(self) -> None:
        self.runner.close()  # cancels those that wait

    async def _wait(self, number: int) -> str:
        future = self.calls.add_call(number, ASKED, self.now + 10, self._take_late)
        try:
            assert await future == [str(number)]
        except LateAnswer:
            return "late"
        except asyncio.CancelledError:
            self.calls.abandon_call(number, future, self._take_late)
            raise
        return "answered"

    def _take_late(self, result: list[str]) -> None:
        self.late.append(int(result[0]))

    def _spin(self) -> None:
        for _ in range(4):
            self.loop.run_until_complete(asyncio.sleep(0))

    @rule()
    def call(self) -> None:
        number = len(self.tasks)
        self.tasks[number] = self.loop.create_task(self._wait(number))
        self.to_come.add(number)
        self._spin()

    @precondition(lambda self: self.to_come)
    @rule(data=st.data(), cancelled=st.booleans(), first=st.booleans())
    def answer(self, data: st.DataObject, cancelled: bool, first: bool) -> None:
        """With `cancelled` the waiter is cancelled in the same turn of the loop, before or after."""
        number = data.draw(st.sampled_from(sorted(self.to_come)))
        if cancelled and first:
            self.tasks[number].cancel()
        self.calls.finish_call(answer(number))
        if cancelled and not first:
            self.tasks[number].cancel()
        self.to_come.discard(number)
        self.arrived.add(number)
        self._spin()

    @precondition(lambda self: self.tasks)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.tasks[data.draw(st.sampled_from(sorted(self.tasks)))].cancel()
        self._spin()

    @rule(seconds=st.floats(0, 20))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.calls.expire_calls(self.now)
        self._spin()

    @invariant()
    def every_answer_was_seen_once(self) -> None:
        answered = [
            number
            for number, task in self.tasks.items()
            if task.done() and not task.cancelled() and task.result() == "answered"
        ]
        assert sorted(answered + self.late) == sorted(self.arrived)


TestEveryAnswerArrives = EveryAnswerArrives.TestCase
TestEveryAnswerArrives.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
