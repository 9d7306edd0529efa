"""The bytes of what processes tell each other: messages of the two admin services, since processes of several versions
must understand each other.

Questions are hexadecimal digits. Invalid ones raise DecodeError.
"""

from typing import TYPE_CHECKING, cast

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import admin_pb2 as published_pb2
from ternmq_protos.v2.definition_pb2 import FILTER_TYPE_UNSPECIFIED, SQL, TAG, FilterExpression
from ternmq_proxy.peers.values import (
    ClientEntry,
    ClientPage,
    ClientQuery,
    ClientSubscription,
    Consumer,
    RunningInfo,
    ServerStats,
    ShownFilter,
    Subscription,
    SubscriptionQuery,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_protos.v2 import definition_pb2


# --- clients


def write_client_query(query: ClientQuery) -> str:
    """Write the question for a page of clients."""
    request = admin_pb2.ListClientsRequest(group=query.group, topic=query.topic, limit=query.limit, page=query.after)
    return request.SerializeToString().hex()


def parse_client_query(argument: str) -> ClientQuery:
    """Read the question for a page of clients."""
    return read_client_query(admin_pb2.ListClientsRequest.FromString(bytes.fromhex(argument)))


def read_client_query(request: admin_pb2.ListClientsRequest) -> ClientQuery:
    """Read the requested clients."""
    return ClientQuery(group=request.group, topic=request.topic, after=request.page, limit=request.limit)


def encode_client_page(page: ClientPage) -> bytes:
    """Encode a page of a process's own clients."""
    answer = admin_pb2.ListClientsResponse(clients=map(to_client_message, page.clients), next_page=page.following)
    return bytes(answer.SerializeToString())


def decode_client_page(data: bytes) -> ClientPage:
    """Decode a page of another process's clients."""
    answer = admin_pb2.ListClientsResponse.FromString(data)
    return ClientPage(list(map(_read_client, answer.clients)), answer.next_page)


def to_client_message(client: ClientEntry) -> admin_pb2.ConnectedClient:
    """Write a client as the admin service has it."""
    answer = admin_pb2.ConnectedClient(
        client_id=client.client_id,
        address=client.address,
        client_type=cast("definition_pb2.ClientType", client.client_type),
        group=client.group,
        topics=client.topics,
        topic_count=client.topic_count,
        process=client.process,
        proxy=client.proxy,
        language=client.language,
        version=client.version,
        hostname=client.hostname,
        protocol=client.protocol,
    )
    answer.since.FromMilliseconds(client.since_ms)
    return answer


def _read_client(client: admin_pb2.ConnectedClient) -> ClientEntry:
    return ClientEntry(
        client_id=client.client_id,
        address=client.address,
        client_type=client.client_type,
        group=client.group,
        topics=list(client.topics),
        topic_count=client.topic_count,
        process=client.process,
        proxy=client.proxy,
        language=client.language,
        version=client.version,
        hostname=client.hostname,
        since_ms=client.since.ToMilliseconds(),
        protocol=client.protocol,
    )


# --- subscriptions


def write_subscription_query(query: SubscriptionQuery) -> str:
    """Write the question for subscriptions."""
    request = published_pb2.DescribeSubscriptionRequest(group={"name": query.group}, topic={"name": query.topic})
    return request.SerializeToString().hex()


def parse_subscription_query(argument: str) -> SubscriptionQuery:
    """Read the question for subscriptions."""
    request = published_pb2.DescribeSubscriptionRequest.FromString(bytes.fromhex(argument))
    return SubscriptionQuery(request.group.name, request.topic.name)


def encode_subscriptions(subscriptions: "Iterable[Subscription]") -> bytes:
    """Encode what clients of a process subscribe."""
    infos = map(to_subscription_message, subscriptions)
    return bytes(published_pb2.ListSubscriptionResponse(subscription_info=infos).SerializeToString())


def decode_subscriptions(data: bytes) -> list[Subscription]:
    """Decode what clients of another process subscribe."""
    return list(map(_read_subscription, published_pb2.ListSubscriptionResponse.FromString(data).subscription_info))


def encode_client_subscriptions(subscriptions: "Iterable[ClientSubscription]") -> bytes:
    """Encode what each client of a process subscribes."""
    infos = map(to_client_subscription_message, subscriptions)
    return bytes(published_pb2.DescribeSubscriptionResponse(client_subscription_info=infos).SerializeToString())


def decode_client_subscriptions(data: bytes) -> list[ClientSubscription]:
    """Decode what each client of another process subscribes."""
    answer = published_pb2.DescribeSubscriptionResponse.FromString(data)
    return [
        ClientSubscription(_read_consumer(each.client_info), _read_subscription(each.subscription_info))
        for each in answer.client_subscription_info
    ]


def to_subscription_message(subscription: Subscription) -> published_pb2.SubscriptionInfo:
    """Write a subscription as the published service has it."""
    return published_pb2.SubscriptionInfo(
        group={"name": subscription.group},
        topic={"name": subscription.topic},
        online=True,
        message_model=published_pb2.CLUSTERING,
        subscription_consistency=subscription.is_consistent,
        expression=None if subscription.filter is None else to_filter_message(subscription.filter),
    )


def _read_subscription(info: published_pb2.SubscriptionInfo) -> Subscription:
    expression = _read_filter(info.expression) if info.HasField("expression") else None
    return Subscription(info.group.name, info.topic.name, info.subscription_consistency, expression)


def to_consumer_message(consumer: Consumer) -> published_pb2.ClientInfo:
    """Write a consumer as the published service has it."""
    return published_pb2.ClientInfo(
        client_id=consumer.client_id,
        version=consumer.version,
        language=consumer.language,
        hostname=consumer.hostname,
        egress_ip=consumer.ip,
        message_model=published_pb2.CLUSTERING,
    )


def _read_consumer(info: published_pb2.ClientInfo) -> Consumer:
    return Consumer(info.client_id, info.version, info.language, info.hostname, info.egress_ip)


def to_client_subscription_message(
    entry: ClientSubscription,
) -> published_pb2.DescribeSubscriptionResponse.ClientSubscriptionInfo:
    """Write what a client subscribes as the published service has it."""
    return published_pb2.DescribeSubscriptionResponse.ClientSubscriptionInfo(
        client_info=to_consumer_message(entry.consumer),
        subscription_info=to_subscription_message(entry.subscription),
    )


_FILTER_TYPES = {True: SQL, False: TAG, None: FILTER_TYPE_UNSPECIFIED}
_FILTER_KINDS = {number: is_sql for is_sql, number in _FILTER_TYPES.items()}


def to_filter_message(shown: ShownFilter) -> FilterExpression:
    """Write a filter expression."""
    return FilterExpression(type=_FILTER_TYPES[shown.is_sql], expression=shown.text)


def _read_filter(expression: FilterExpression) -> ShownFilter:
    return ShownFilter(expression.expression, _FILTER_KINDS.get(expression.type))


# --- one consumer, one server


def write_consumer_query(group: str, client_id: str) -> str:
    """Write the question for a consumer of a group."""
    request = published_pb2.GetConsumerRunningInfoRequest(group={"name": group}, client_id=client_id)
    return request.SerializeToString().hex()


def parse_consumer_query(argument: str) -> tuple[str, str]:
    """Read the question for a consumer: its group and its id."""
    request = published_pb2.GetConsumerRunningInfoRequest.FromString(bytes.fromhex(argument))
    return request.group.name, request.client_id


def encode_running_info(info: RunningInfo | None) -> bytes:
    """Encode what a process knows of a consumer; None: it has no such client."""
    shown = None if info is None else to_running_info_message(info)
    return bytes(published_pb2.GetConsumerRunningInfoResponse(consumer_running_info=shown).SerializeToString())


def decode_running_info(data: bytes) -> RunningInfo | None:
    """Decode what another process knows of a consumer."""
    answer = published_pb2.GetConsumerRunningInfoResponse.FromString(data)
    if not answer.HasField("consumer_running_info"):
        return None
    info = answer.consumer_running_info
    return RunningInfo(dict(info.properties), {topic: _read_filter(each) for topic, each in info.subscriptions.items()})


def to_running_info_message(info: RunningInfo) -> published_pb2.ConsumerRunningInfo:
    """Write what is known of a consumer as the published service has it."""
    return published_pb2.ConsumerRunningInfo(
        properties=info.properties,
        subscriptions={topic: to_filter_message(each) for topic, each in info.filters.items()},
    )


def encode_stats(stats: ServerStats) -> bytes:
    """Encode how many clients a process has."""
    return bytes(to_stats_message(stats).SerializeToString())


def decode_stats(data: bytes) -> ServerStats:
    """Decode how many clients another process has."""
    stats = published_pb2.GetProxyRuntimeStatsResponse.FromString(data)
    return ServerStats(stats.proxy_name, stats.version, stats.connections, stats.producers, stats.consumers)


def to_stats_message(stats: ServerStats) -> published_pb2.GetProxyRuntimeStatsResponse:
    """Write how many clients a server has, as the published service has it."""
    return published_pb2.GetProxyRuntimeStatsResponse(
        proxy_name=stats.name,
        version=stats.version,
        connections=stats.connections,
        producers=stats.producers,
        consumers=stats.consumers,
    )
