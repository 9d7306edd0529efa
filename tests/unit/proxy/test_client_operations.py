"""Clients come, tell their settings, stay and go: called with plain values, whatever front has read them."""

import pytest

from ternmq_common.catalog.retry_backoff import DEFAULT_BACKOFF
from ternmq_common.errors import MessagingError
from ternmq_common.filters.message_filter import FilterText
from ternmq_common.shard.model import ConsumerGroup
from ternmq_proxy.access.needs import GROUP_SUB, TOPIC_PUB, TOPIC_SUB
from ternmq_proxy.call import Call
from ternmq_proxy.operations.client_life import forget_client, keep_alive, keep_alive_nowait
from ternmq_proxy.operations.client_settings import ConsumerRules, ProducerRules, configure_client
from ternmq_proxy.operations.rights import needs_of_settings
from ternmq_proxy.processors.client_settings import ClientSettings, NamedTopic, TopicSubscription
from ternmq_proxy.processors.client_type import ClientType
from ternmq_proxy.services import Services
from tests.support.operations import Stack

CALL = Call(client_id="client", peer="127.0.0.1:9")
GROUP, TOPIC = "readers", "orders"


@pytest.fixture(autouse=True)
async def topic(stack: Stack) -> None:
    await stack.create_topic(TOPIC)


def producer(topic: str = TOPIC) -> ClientSettings:
    return ClientSettings(client_type=ClientType.PRODUCER, published_topics=(NamedTopic(topic),))


def consumer(
    client_type: int = ClientType.PUSH_CONSUMER, *, group: str = GROUP, written: str = "*", is_sql: bool = False
) -> ClientSettings:
    return ClientSettings(
        client_type=client_type,
        consumes=True,
        group=group,
        subscriptions=(TopicSubscription(TOPIC, FilterText(written, is_sql)),),
    )


async def test_a_producer_gets_the_largest_body_and_is_known_by_its_topics(services: Services) -> None:
    rules = await configure_client(producer(), CALL, services)
    assert rules == ProducerRules(body_bytes_max=services.limits.body_bytes_max)
    client = services.clients.find_client(CALL.client_id)
    assert client is not None
    assert (client.topics, client.address) == (frozenset({TOPIC}), CALL.peer)


async def test_a_consumer_gets_the_rules_of_its_group(stack: Stack, services: Services) -> None:
    await stack.create_group(ConsumerGroup(name=GROUP, fifo=True, max_attempts=5))
    rules = await configure_client(consumer(), CALL, services)
    assert isinstance(rules, ConsumerRules)
    assert (rules.fifo, rules.max_attempts, rules.retry_backoff) == (True, 5, DEFAULT_BACKOFF)
    assert services.subscriptions.member_filters(GROUP, CALL.client_id) == {TOPIC: "*"}
    pulling = await configure_client(consumer(ClientType.PULL_CONSUMER), CALL, services)
    assert isinstance(pulling, ConsumerRules)
    assert not pulling.fifo


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (producer("a b"), "ILLEGAL_TOPIC"),
        (consumer(ClientType.PRODUCER), r"UNRECOGNIZED_CLIENT_TYPE: .* client type PRODUCER"),
        (consumer(group="a b"), "ILLEGAL_CONSUMER_GROUP"),
        (consumer(written="a | b"), "ILLEGAL_FILTER_EXPRESSION"),
        (consumer(written=" ", is_sql=True), "ILLEGAL_FILTER_EXPRESSION: the SQL92 expression is empty"),
        (consumer(ClientType.LITE_PUSH_CONSUMER), "CONSUMER_GROUP_NOT_FOUND"),
        (ClientSettings(client_type=ClientType.PRODUCER, size=1 << 30), "TOO_MANY_REQUESTS: the settings have"),
    ],
)
async def test_settings_are_checked_and_refused_ones_are_not_remembered(
    services: Services, settings: ClientSettings, problem: str
) -> None:
    with pytest.raises(MessagingError, match=problem):
        await configure_client(settings, CALL, services)
    assert services.clients.find_client(CALL.client_id) is None


async def test_a_client_of_a_later_version_is_taken_as_a_consumer(services: Services) -> None:
    assert isinstance(await configure_client(consumer(99), CALL, services), ConsumerRules)


async def test_heartbeats_keep_clients_that_are_known_or_describe_themselves(stack: Stack, services: Services) -> None:
    assert not keep_alive_nowait(ClientType.PUSH_CONSUMER, GROUP, CALL, services)
    await keep_alive(ClientType.PUSH_CONSUMER, GROUP, CALL, services)
    await stack.create_group(ConsumerGroup(name=GROUP))
    assert not keep_alive_nowait(ClientType.CLIENT_TYPE_UNSPECIFIED, "", CALL, services)
    assert keep_alive_nowait(ClientType.PUSH_CONSUMER, GROUP, CALL, services)
    other = Call(client_id="other", peer=CALL.peer)
    assert keep_alive_nowait(ClientType.PRODUCER, "", other, services)
    with pytest.raises(MessagingError, match="UNRECOGNIZED_CLIENT_TYPE"):
        await keep_alive(99, "", other, services)
    assert [client.client_id for client in services.clients.group_members(GROUP)] == [CALL.client_id]


async def test_a_client_that_ends_is_forgotten_once(services: Services) -> None:
    await configure_client(consumer(), CALL, services)
    await forget_client(GROUP, CALL, services)
    assert services.clients.find_client(CALL.client_id) is None
    assert services.subscriptions.subscribed_topics(GROUP) == []
    with pytest.raises(MessagingError, match="UNRECOGNIZED_CLIENT_TYPE: the client is not known here"):
        await forget_client(GROUP, CALL, services)


def test_settings_need_the_rights_to_what_they_name() -> None:
    assert needs_of_settings(producer()) == [(TOPIC_PUB, TOPIC)]
    assert needs_of_settings(consumer()) == [(GROUP_SUB, GROUP), (TOPIC_SUB, TOPIC)]
