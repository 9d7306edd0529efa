"""Takes the settings of clients, and returns those in force (`overview.md, Settings`)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_common.catalog.lite_group import DEFAULT_LITE_QUOTA
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.filters.tag_filter import TagFilter
from ternmq_common.limits import LITE_TOPIC_BYTES_MAX, RECEIVE_BATCH_MAX, SQL_FILTER_BYTES_MAX
from ternmq_common.names import check_group_name, check_topic_name
from ternmq_common.printable import find_name_problem
from ternmq_proxy.operations.group_creation import may_create_group
from ternmq_proxy.operations.lite_groups import check_client_type
from ternmq_proxy.operations.rights import needs_of_settings
from ternmq_proxy.processors.client_limits import check_size
from ternmq_proxy.processors.client_type import LITE_CONSUMERS, ClientType

if TYPE_CHECKING:
    from ternmq_common.catalog.retry_backoff import RetryBackoff
    from ternmq_common.filters.message_filter import FilterText
    from ternmq_proxy.call import Call
    from ternmq_proxy.processors.client_settings import ClientSettings
    from ternmq_proxy.services import Services

PRODUCER_MAX_ATTEMPTS = 3
_NO_CONSUMERS = (ClientType.CLIENT_TYPE_UNSPECIFIED, ClientType.PRODUCER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRules:
    """The settings in force for a producer: the bytes of a body, and how it retries failed sends."""

    body_bytes_max: int
    max_attempts: int = PRODUCER_MAX_ATTEMPTS
    backoff_initial_ms: int = 10
    backoff_max_ms: int = 1000
    backoff_multiplier: float = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRules:
    """The settings in force for a consumer. `fifo`: it must process the messages of a message group one after the
    other."""

    fifo: bool
    long_poll_max_ms: int
    max_attempts: int
    retry_backoff: "RetryBackoff"
    lite_topics_max: int
    receive_batch_max: int = RECEIVE_BATCH_MAX
    lite_topic_bytes_max: int = LITE_TOPIC_BYTES_MAX


async def configure_client(
    settings: "ClientSettings", call: "Call", services: "Services"
) -> ProducerRules | ConsumerRules:
    """Take the settings of a client; return those in force."""
    for need, name in needs_of_settings(settings):
        services.access.require_right("Telemetry", call, need, name)
    client_id = call.require_client()
    check_size(settings)
    rules = (
        await _consumer_rules(settings, call, services) if settings.consumes else _producer_rules(settings, services)
    )
    joined = services.catalog.has_group(settings.group)
    client = services.clients.take_settings(client_id, settings, user=call.user, joined=joined)
    client.got_fifo = isinstance(rules, ConsumerRules) and rules.fifo
    client.address = call.peer
    if settings.subscriptions:
        expressions = {entry.topic: checked_filter_text(entry.filter) for entry in settings.subscriptions}
        services.subscriptions.replace_filters(settings.group, client_id, expressions)
    return rules


def _producer_rules(settings: "ClientSettings", services: "Services") -> ProducerRules:
    for topic in settings.published_topics:
        check_topic_name(topic.name)
    return ProducerRules(body_bytes_max=services.limits.body_bytes_max)


async def _consumer_rules(settings: "ClientSettings", call: "Call", services: "Services") -> ConsumerRules:
    client_type = settings.client_type
    if client_type in _NO_CONSUMERS:
        raise MessagingError(
            ErrorCode.UNRECOGNIZED_CLIENT_TYPE,
            f"a subscription does not go with client type {ClientType(client_type).name}",
        )
    for entry in settings.subscriptions:
        checked_filter_text(entry.filter)
        # Receives find out which topics exist; operators see this name.
        if problem := find_name_problem(entry.topic):
            raise MessagingError(ErrorCode.ILLEGAL_TOPIC, f"the name of a subscription's topic {problem}")
    topics = [entry.topic for entry in settings.subscriptions]
    name = check_group_name(settings.group)
    if client_type in LITE_CONSUMERS:  # an operator creates the groups of lite topics
        group = await services.catalog.existing_group(name, bind=topics[0] if topics else "TOPIC")
    else:
        may_create = may_create_group(call, name, services)
        group = await services.catalog.ensure_subscribed_group(name, topics, may_create=may_create)
    check_client_type(client_type, topics, group)
    return ConsumerRules(
        fifo=group.fifo and client_type != ClientType.PULL_CONSUMER,
        long_poll_max_ms=services.long_poll_max_ms,
        max_attempts=group.max_attempts,
        retry_backoff=group.retry_backoff,
        lite_topics_max=DEFAULT_LITE_QUOTA if group.lite is None else group.lite.quota,
    )


def checked_filter_text(written: "FilterText") -> str:
    """Return the text of a subscription's filter. Raises ILLEGAL_FILTER_EXPRESSION.

    A condition is not parsed here: the client's receives are refused with the place of the error.
    """
    text = written.expression
    if not written.is_sql:
        return TagFilter.parse_expression(text).expression
    if not text.strip():
        raise MessagingError(ErrorCode.ILLEGAL_FILTER_EXPRESSION, "the SQL92 expression is empty")
    if len(text.encode()) > SQL_FILTER_BYTES_MAX:
        raise MessagingError(
            ErrorCode.ILLEGAL_FILTER_EXPRESSION,
            f"the SQL92 expression is longer than {SQL_FILTER_BYTES_MAX} bytes",
        )
    return text
