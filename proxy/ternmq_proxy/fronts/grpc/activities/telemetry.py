"""Telemetry as gRPC has it: settings of clients, the settings in force (`operations/client_settings.py`), and commands
to clients."""

from sys import intern
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.catalog.retry_backoff import CustomizedSteps
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_protos.pool import Duration
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.definition_pb2 import CustomizedBackoff, ExponentialBackoff, Metric, RetryPolicy, Settings
from ternmq_protos.v2.service_pb2 import (
    NotifyUnsubscribeLiteCommand,
    RecoverOrphanedTransactionCommand,
    TelemetryCommand,
)
from ternmq_proxy.fronts.grpc.activities.filter_text import read_filter
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.fronts.grpc.delivered_form import delivered_form
from ternmq_proxy.operations.client_settings import ConsumerRules, ProducerRules, configure_client
from ternmq_proxy.operations.rights import needs_of_settings
from ternmq_proxy.processors.client_commands import CheckTransaction
from ternmq_proxy.processors.client_settings import ClientSettings, NamedTopic, TopicSubscription, UserAgent

if TYPE_CHECKING:
    from ternmq_common.catalog.retry_backoff import RetryBackoff
    from ternmq_proxy.access.needs import NamedNeed
    from ternmq_proxy.call import Call
    from ternmq_proxy.processors.client_commands import ClientCommand
    from ternmq_proxy.services import Services


class SettingsAnswer(NamedTuple):
    """The answer to a client's settings, and the rights that its user must keep."""

    answer: TelemetryCommand
    needs: "list[NamedNeed]"


async def telemetry(command: TelemetryCommand, call: "Call", services: "Services") -> SettingsAnswer | None:
    """Return the answer to a client's command, None if it needs none. A MessagingError ends the stream."""
    if not command.HasField("settings"):
        call.require_client()
        return None  # a result of a command that no caller waits for, or nothing at all
    if not command.settings.HasField("pub_sub"):
        call.require_client()
        raise MessagingError(
            ErrorCode.BAD_REQUEST, "the settings hold neither publishing nor subscription; one is needed"
        )
    settings = read_settings(command.settings)
    rules = await configure_client(settings, call, services)
    answer = Settings()
    answer.CopyFrom(command.settings)
    if isinstance(rules, ProducerRules):
        _complete_producer(answer, rules)
    else:
        _complete_consumer(answer, rules)
    answer.metric.CopyFrom(Metric(on=False))
    return SettingsAnswer(TelemetryCommand(status=OK, settings=answer), needs_of_settings(settings))


def read_settings(settings: Settings) -> ClientSettings:
    """Return a client's settings as plain values. Common names are interned, which saves a fourth of the memory of
    settings that differ."""
    return ClientSettings(
        client_type=int(settings.client_type),
        consumes=settings.HasField("subscription"),
        group=intern(settings.subscription.group.name),
        subscriptions=tuple(
            TopicSubscription(intern(entry.topic.name), read_filter(entry.expression))
            for entry in settings.subscription.subscriptions
        ),
        published_topics=tuple(
            NamedTopic(intern(topic.name), topic.resource_namespace) for topic in settings.publishing.topics
        ),
        request_timeout_ms=settings.request_timeout.ToMilliseconds(),
        user_agent=_read_user_agent(settings),
        size=settings.ByteSize(),
    )


def _read_user_agent(settings: Settings) -> UserAgent | None:
    if not settings.HasField("user_agent"):
        return None
    agent = settings.user_agent
    language = definition_pb2.Language.DESCRIPTOR.values_by_number.get(agent.language)
    # The number of a value that a later version added.
    name = str(agent.language) if language is None else language.name
    return UserAgent(intern(name), intern(agent.version), agent.hostname)


def _complete_producer(answer: Settings, rules: ProducerRules) -> None:
    answer.publishing.max_body_size = rules.body_bytes_max
    answer.publishing.validate_message_type = True
    backoff = ExponentialBackoff(
        initial=_make_duration(rules.backoff_initial_ms),
        max=_make_duration(rules.backoff_max_ms),
        multiplier=rules.backoff_multiplier,
    )
    answer.backoff_policy.CopyFrom(RetryPolicy(max_attempts=rules.max_attempts, exponential_backoff=backoff))


def _complete_consumer(answer: Settings, rules: ConsumerRules) -> None:
    subscription = answer.subscription
    subscription.fifo = rules.fifo
    subscription.receive_batch_size = rules.receive_batch_max
    subscription.long_polling_timeout.FromMilliseconds(rules.long_poll_max_ms)
    subscription.lite_subscription_quota = rules.lite_topics_max
    subscription.max_lite_topic_size = rules.lite_topic_bytes_max
    answer.backoff_policy.CopyFrom(_retry_policy(rules.max_attempts, rules.retry_backoff))


def _retry_policy(max_attempts: int, backoff: "RetryBackoff") -> RetryPolicy:
    policy = RetryPolicy(max_attempts=max_attempts)
    if isinstance(backoff, CustomizedSteps):
        policy.customized_backoff.CopyFrom(CustomizedBackoff(next=map(_make_duration, backoff.steps_ms)))
    else:
        initial, longest = _make_duration(backoff.initial_ms), _make_duration(backoff.max_ms)
        curve = ExponentialBackoff(initial=initial, max=longest, multiplier=backoff.multiplier)
        policy.exponential_backoff.CopyFrom(curve)
    return policy


def _make_duration(milliseconds: int) -> Duration:
    return Duration(seconds=milliseconds // 1000, nanos=milliseconds % 1000 * 1_000_000)


def serialize_command(command: "ClientCommand", *, store_host: str) -> bytes:
    """Return the bytes of a TelemetryCommand; `store_host` is `host:port` of the first listener."""
    written = TelemetryCommand()
    if isinstance(command, CheckTransaction):
        message = delivered_form(command.message, topic=command.topic.name, store_host=store_host)
        message.topic.resource_namespace = command.topic.namespace
        message.system_properties.delivery_attempt = 1
        check = RecoverOrphanedTransactionCommand(message=message, transaction_id=command.transaction_id)
        written.recover_orphaned_transaction_command.CopyFrom(check)
    else:
        lost = NotifyUnsubscribeLiteCommand(lite_topic=command.lite_topic)
        written.notify_unsubscribe_lite_command.CopyFrom(lost)
    data: bytes = written.SerializeToString()
    return data
