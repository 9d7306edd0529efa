"""Telemetry: a client tells its settings, the server answers with those in force (`overview.md, Settings`)."""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import LITE_TOPIC_BYTES_MAX, RECEIVE_BATCH_MAX, SQL_FILTER_BYTES_MAX
from ternmq_common.lite_group import DEFAULT_LITE_QUOTA
from ternmq_common.names import checked_group, checked_topic
from ternmq_common.printable import problem_of_name
from ternmq_common.retry_backoff import CustomizedSteps
from ternmq_common.tag_filter import TagFilter
from ternmq_protos.pool import Duration
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.definition_pb2 import (
    CustomizedBackoff,
    ExponentialBackoff,
    FilterExpression,
    Metric,
    RetryPolicy,
    Settings,
)
from ternmq_protos.v2.service_pb2 import TelemetryCommand
from ternmq_proxy.fronts.grpc.activities.group_creation import may_create_group
from ternmq_proxy.fronts.grpc.activities.lite_groups import LITE_TYPES, check_client
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.processors.client_limits import check_size

if TYPE_CHECKING:
    from ternmq_common.model import Group
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

PRODUCER_MAX_ATTEMPTS = 3
_NO_CONSUMERS = {definition_pb2.CLIENT_TYPE_UNSPECIFIED, definition_pb2.PRODUCER}


async def telemetry(command: TelemetryCommand, call: "Call", services: "Services") -> TelemetryCommand | None:
    """The answer to one command of a client, None if it needs none. A MessagingError ends the stream."""
    client_id = call.require_client()
    if not command.HasField("settings"):
        return None  # a result of a command that nobody waits for any more, or nothing at all
    settings = command.settings
    if not settings.HasField("pub_sub"):
        raise MessagingError(
            ErrorCode.BAD_REQUEST, "the settings hold neither publishing nor subscription; one is needed"
        )
    check_size(settings)
    answer = Settings()
    answer.CopyFrom(settings)
    if settings.HasField("publishing"):
        _complete_producer(answer, services)
    else:
        await _complete_consumer(answer, call, services)
    answer.metric.CopyFrom(Metric(on=False))
    joined = services.catalog.has_group(settings.subscription.group.name)
    client = services.clients.configured(client_id, settings, user=call.user, joined=joined)
    client.was_told_fifo, client.address = answer.subscription.fifo, call.peer
    if settings.subscription.subscriptions:
        expressions = {entry.topic.name: filter_text(entry.expression) for entry in settings.subscription.subscriptions}
        services.subscriptions.replaced(settings.subscription.group.name, client_id, expressions)
    return TelemetryCommand(status=OK, settings=answer)


def _complete_producer(answer: Settings, services: "Services") -> None:
    for topic in answer.publishing.topics:
        checked_topic(topic.name)
    answer.publishing.max_body_size = services.limits.body_bytes_max
    answer.publishing.validate_message_type = True
    backoff = ExponentialBackoff(initial=Duration(nanos=10_000_000), max=Duration(seconds=1), multiplier=2)
    answer.backoff_policy.CopyFrom(RetryPolicy(max_attempts=PRODUCER_MAX_ATTEMPTS, exponential_backoff=backoff))


async def _complete_consumer(answer: Settings, call: "Call", services: "Services") -> None:
    if answer.client_type in _NO_CONSUMERS:
        raise MessagingError(
            ErrorCode.UNRECOGNIZED_CLIENT_TYPE,
            f"a subscription does not go with client type {definition_pb2.ClientType.Name(answer.client_type)}",
        )
    subscription = answer.subscription
    for entry in subscription.subscriptions:
        filter_text(entry.expression)
        # Which topics there are is for receives to say; this name is shown to operators.
        if problem := problem_of_name(entry.topic.name):
            raise MessagingError(ErrorCode.ILLEGAL_TOPIC, f"the name of a subscription's topic {problem}")
    topics = [entry.topic.name for entry in subscription.subscriptions]
    name = checked_group(subscription.group.name)
    if answer.client_type in LITE_TYPES:  # whose groups are made by who knows how they are to be
        group = await services.catalog.existing_group(name, bind=topics[0] if topics else "TOPIC")
    else:
        may_create = may_create_group(call, name, services)
        group = await services.catalog.group_of(name, topics, may_create=may_create)
    check_client(answer.client_type, topics, group)
    subscription.fifo = group.fifo and answer.client_type != definition_pb2.PULL_CONSUMER
    subscription.receive_batch_size = RECEIVE_BATCH_MAX
    subscription.long_polling_timeout.FromMilliseconds(services.long_poll_max_ms)
    subscription.lite_subscription_quota = DEFAULT_LITE_QUOTA if group.lite is None else group.lite.quota
    subscription.max_lite_topic_size = LITE_TOPIC_BYTES_MAX
    answer.backoff_policy.CopyFrom(_retry_policy(group))


def filter_text(expression: FilterExpression) -> str:
    """The text of a subscription's filter; ILLEGAL_FILTER_EXPRESSION for one that can't be used.

    A condition is not looked at further: the clients' receives are refused with the place of the error.
    """
    if expression.type != definition_pb2.SQL:
        return TagFilter.parse(expression.expression).expression
    if not expression.expression.strip():
        raise MessagingError(ErrorCode.ILLEGAL_FILTER_EXPRESSION, "the SQL92 expression is empty")
    if len(expression.expression.encode()) > SQL_FILTER_BYTES_MAX:
        raise MessagingError(
            ErrorCode.ILLEGAL_FILTER_EXPRESSION,
            f"the SQL92 expression is longer than {SQL_FILTER_BYTES_MAX} bytes",
        )
    return expression.expression


def _retry_policy(group: "Group") -> RetryPolicy:
    policy = RetryPolicy(max_attempts=group.max_attempts)
    backoff = group.retry_backoff
    if isinstance(backoff, CustomizedSteps):
        policy.customized_backoff.CopyFrom(CustomizedBackoff(next=map(_duration, backoff.steps_ms)))
    else:
        initial, longest = _duration(backoff.initial_ms), _duration(backoff.max_ms)
        curve = ExponentialBackoff(initial=initial, max=longest, multiplier=backoff.multiplier)
        policy.exponential_backoff.CopyFrom(curve)
    return policy


def _duration(milliseconds: int) -> Duration:
    return Duration(seconds=milliseconds // 1000, nanos=milliseconds % 1000 * 1_000_000)
