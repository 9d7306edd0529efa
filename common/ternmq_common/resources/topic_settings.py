"""The settings of a topic that can be changed, one description each (`resource_settings`).

A line here, the field in `admin.proto` and `ternmq.admin.topics`, a column in a step of the registry's schema, and
what it means to the broker make a setting.
"""

from dataclasses import dataclass

from ternmq_common.limits import (
    DAY_MS,
    DEFAULT_QUEUES,
    LITE_TTL_MAX_MS,
    LITE_TTL_MIN_MS,
    MINUTE_MS,
    QUEUES_MAX,
)
from ternmq_common.resources.modes import FlushMode, QueuePermission, ReplicationMode
from ternmq_common.resources.resource_settings import Choice, FormField, Span, Whole, described, settings_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The settings of a topic.

    `queues` counts its queues on each broker. `replication` is when its sends are answered in shards with replicas,
    None: as each shard has it; `flush` the same of each broker's disk. Messages older than `retention_ms` are gone, 0:
    when the broker removes them. Of a LITE one, a lite topic without a send for `lite_ttl_ms` is dropped, 0: when the
    broker has removed its messages.
    """

    queues: int = described(
        DEFAULT_QUEUES,
        Whole(1, QUEUES_MAX),
        "Message queues on each broker; never fewer than there are.",
        creation_help="Message queues on each broker.  [default: the server's]",
        since=1,
        comment="message queues on each broker",
        refusal="{value} queues were requested; {least} to {most} are allowed",
        fact="Queues on each broker",
        only_grows=True,
        creation_form=FormField(
            "Queues on each broker",
            "Empty: as many as the server has by default. They can be more later, and never less.",
        ),
        form=FormField(
            "Queues on each broker",
            "Never less than now. Of FIFO topics, messages of a message group may go to another queue from then on, "
            "before those in the old one are finished.",
            is_filled=True,
        ),
    )
    permission: QueuePermission = described(
        QueuePermission.READ_WRITE,
        Choice(QueuePermission),
        "What clients may do with it.",
        creation_help=None,
        since=4,
        comment="Permission",
        fact="Clients may",
        form=FormField("Clients may", is_filled=True),
    )
    replication: ReplicationMode | None = described(
        None,
        Choice(ReplicationMode, absent="shard"),
        "Answer sends to brokers with replicas when all in sync have the message (sync), or the leader (async).  "
        "[default: shard, as each of them does]",
        since=11,
        comment="ReplicationMode, empty: as the shard has it",
        absence="as each shard has it",
    )
    flush: FlushMode | None = described(
        None,
        Choice(FlushMode, absent="broker"),
        "Answer sends when the broker's disk has the message (sync), or before that (async).  "
        "[default: broker, as each of them does]",
        since=13,
        comment="FlushMode, empty: as the broker has it",
        absence="as each broker has it",
        form=FormField(
            "A send is acknowledged when",
            says={
                "broker": "as each broker has it",
                "sync": "the message is on the disk",
                "async": "the message is written",
            },
            is_filled=True,
        ),
    )
    retention_ms: int = described(
        0,
        # Less would be a purge after each send, more is no topic's.
        Span(MINUTE_MS, 3650 * DAY_MS, absent="broker"),
        "Keep its messages this long, unless the broker removes them earlier; 0s: as long as the broker keeps them.",
        since=13,
        comment="older messages are gone, 0: when the broker removes them",
        refusal="a retention of {value} ms was requested; {least} to {most} ms are allowed, 0 for that of the broker",
        is_lite=False,
        type_refusal="a LITE topic has no retention of its own, but a TTL of its lite topics",
        absence="as each broker has it",
        fact="Retention",
        creation_form=FormField("Retention", "How long messages stay: 12h, 3d", "as each broker has it"),
        form=FormField("Retention", "12h, 3d; 0s: as each broker has it", "stays as it is"),
    )
    lite_ttl_ms: int = described(
        0,
        Span(LITE_TTL_MIN_MS, LITE_TTL_MAX_MS, absent="none", early_none="none for no TTL"),
        "For a topic of type lite: drop lite topics to which nothing was sent for this long, at least 15m; 0s: drop "
        "them when the broker has removed its messages.",
        since=14,
        comment="silent lite topics are dropped, 0: when the broker has removed their messages",
        refusal="a lite TTL of {value} ms was requested; {least} to {most} ms are allowed, 0 for none",
        is_lite=True,
        type_refusal="a lite TTL is only for LITE topics",
        absence="none",
        creation_form=FormField(
            "Of a lite topic: dropped when silent for", placeholder="never before its messages are removed"
        ),
    )


TOPIC_SETTINGS = settings_of(TopicSettings)
