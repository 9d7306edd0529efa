"""Pulls and offsets, called with plain values, whatever front has read them."""

import pytest

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.filters.message_filter import FilterText
from ternmq_common.shard.model import QueueRef
from ternmq_proxy.call import Call
from ternmq_proxy.operations.offsets import OffsetPolicy, commit_offset, find_committed_offset, find_offset
from ternmq_proxy.operations.pull import PullRequest, pull_messages
from ternmq_proxy.services import Services
from tests.support.operations import BROKER, Stack, body_of

CALL = Call(client_id="client", peer="127.0.0.1:9")
GROUP, TOPIC = "readers", "orders"
QUEUE = QueueRef(TOPIC, BROKER, 1)


@pytest.fixture(autouse=True)
async def messages(stack: Stack) -> None:
    """Five messages in a queue of the topic, tagged and not."""
    await stack.create_topic(TOPIC, queues=2)
    await stack.store(TOPIC, b"0", b"1", b"2", queue_id=1)
    await stack.store(TOPIC, b"3", b"4", queue_id=1, tag="paid")


async def test_a_pull_reads_from_its_offset_on(services: Services) -> None:
    result = await pull_messages(PullRequest(queue=QUEUE, offset=1, batch=2), CALL, services)
    assert ([body_of(message) for message in result.messages], result.next_offset) == ([b"1", b"2"], 3)
    assert result.problem is None


@pytest.mark.parametrize("written", [FilterText("paid"), FilterText("TAGS = 'paid'", is_sql=True)])
async def test_a_pull_reads_what_passes_its_filter(services: Services, written: FilterText) -> None:
    result = await pull_messages(PullRequest(queue=QUEUE, offset=0, filter=written), CALL, services)
    assert ([body_of(message) for message in result.messages], result.next_offset) == ([b"3", b"4"], 5)


@pytest.mark.parametrize(
    ("offset", "code", "next_offset"),
    [(5, ErrorCode.MESSAGE_NOT_FOUND, 5), (6, ErrorCode.ILLEGAL_OFFSET, 5), (-1, ErrorCode.ILLEGAL_OFFSET, 5)],
)
async def test_a_pull_without_messages_says_why_and_where_to_go_on(
    services: Services, offset: int, code: ErrorCode, next_offset: int
) -> None:
    result = await pull_messages(PullRequest(queue=QUEUE, offset=offset), CALL, services)
    assert result.problem is not None
    assert (result.messages, result.problem.code, result.next_offset) == ([], code, next_offset)


@pytest.mark.parametrize("name", ["", "any-broker", BROKER])
async def test_where_there_is_one_broker_any_name_means_it(services: Services, name: str) -> None:
    queue = QueueRef(TOPIC, name, 1)
    assert await find_offset(queue, OffsetPolicy.END, None, CALL, services) == 5


async def test_a_queue_that_the_topic_does_not_have_is_refused(services: Services) -> None:
    queue = QueueRef(TOPIC, BROKER, 2)
    for refused in (
        pull_messages(PullRequest(queue=queue, offset=0), CALL, services),
        commit_offset(GROUP, queue, 0, CALL, services),
        find_committed_offset(GROUP, queue, CALL, services),
        find_offset(queue, OffsetPolicy.END, None, CALL, services),
    ):
        with pytest.raises(MessagingError, match="BAD_REQUEST: topic 'orders' has the queues 0 to 1, not 2"):
            await refused


async def test_a_group_goes_on_at_the_offset_that_was_committed(services: Services) -> None:
    with pytest.raises(MessagingError, match="OFFSET_NOT_FOUND"):
        await find_committed_offset(GROUP, QUEUE, CALL, services)
    await commit_offset(GROUP, QUEUE, 3, CALL, services)
    assert await find_committed_offset(GROUP, QUEUE, CALL, services) == 3
    with pytest.raises(MessagingError, match="ILLEGAL_OFFSET: offset 6 is outside of queue 1"):
        await commit_offset(GROUP, QUEUE, 6, CALL, services)
    assert await find_committed_offset(GROUP, QUEUE, CALL, services) == 3


async def test_offsets_are_found_by_policy(stack: Stack, services: Services) -> None:
    stack.clock.advance_by(60_000)
    later_ms = stack.clock.now_ms()
    await stack.store(TOPIC, b"5", queue_id=1)
    assert await find_offset(QUEUE, OffsetPolicy.BEGINNING, None, CALL, services) == 0
    assert await find_offset(QUEUE, OffsetPolicy.END, None, CALL, services) == 6
    for time_ms, offset in ((later_ms, 5), (-(10**17), 0), (10**17, 6)):
        assert await find_offset(QUEUE, OffsetPolicy.TIMESTAMP, time_ms, CALL, services) == offset
    for policy in (OffsetPolicy.TIMESTAMP, None):
        with pytest.raises(MessagingError, match="BAD_REQUEST: the policy must be"):
            await find_offset(QUEUE, policy, None, CALL, services)
