"""The settings of a consumer group that can be changed, one description each (`resource_settings`)."""

from dataclasses import dataclass

from ternmq_common.catalog.assignment_strategy import AssignmentStrategy
from ternmq_common.catalog.lite_group import DEFAULT_LITE_QUOTA, LITE_QUOTA_MAX, LITE_RESETS, LiteModel
from ternmq_common.catalog.retry_backoff import DEFAULT_BACKOFF, RetryBackoff, parse_backoff
from ternmq_common.limits import (
    ATTEMPTS_MAX,
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_PRIORITY_FACTOR,
    INVISIBLE_MAX_MS,
    SECOND_MS,
)
from ternmq_common.resources.resource_settings import (
    DEFAULT_BEGINNING,
    Beginning,
    Choice,
    Flag,
    FormField,
    Setting,
    Span,
    Text,
    Whole,
    Words,
    described,
    settings_of,
)

DEFAULT_ASSIGNMENT = "averagely"
_BACKOFF_HINT = "customized:1s,5s,10s or exponential:5s,2h,2"


def _canonical_strategy(text: str) -> str:
    return str(AssignmentStrategy.parse_strategy(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The settings of a consumer group; a lite group has those of `LiteGroup` besides.

    `max_attempts` counts the first delivery too. `consume_from` is where the group begins in a queue that is new to
    it: `auto` (the first message while the queue has every message it ever had, else the end), `earliest`, `latest`,
    or milliseconds since the epoch as digits. `assignment` is the text of an assignment strategy, for members that
    pull. `queue_lock_hold_ms` above 0 gives each queue one pulling reader at a time; see
    `ternmq_broker.delivery.queue_lock`. `priority_factor`: of 100 receives from a PRIORITY topic so many begin with
    the highest priority, the others with each of the lower ones in turn, so that none starves. `remoting_pop`: members
    by the remoting protocol pop.
    """

    fifo: bool = described(
        False,
        Flag(is_plain_at_creation=True),
        "Deliver the messages of a message group in order, or not; only before the group received its first message.",
        creation_help="Deliver the messages of a message group in order, one at a time.",
    )
    max_attempts: int = described(
        DEFAULT_MAX_ATTEMPTS,
        Whole(1, ATTEMPTS_MAX),
        "Deliveries of a message, the first included.  [default: the server's]",
        refusal="{value} attempts were requested; {least} to {most} are allowed",
        fact="Attempts",
        creation_form=FormField("Attempts before a message is a dead letter", placeholder="the server's default"),
        form=FormField("Attempts before a message is a dead letter", is_filled=True),
    )
    retry_backoff: RetryBackoff = described(
        DEFAULT_BACKOFF,
        Text(parse_backoff, "POLICY"),
        "Backoff after failed deliveries: customized:1s,5s,10s (the last goes on) or exponential:5s,2h,2 (first, "
        "longest, factor); customized alone is the default of 1s to 2h in 18 steps.",
        creation_form=FormField("Waits between attempts", _BACKOFF_HINT, "the server's default"),
        form=FormField("Waits between attempts", _BACKOFF_HINT, is_filled=True),
    )
    consume_from: str = described(
        DEFAULT_BEGINNING,
        Beginning(),
        "Where the group begins in a queue without an offset. auto: at the first message while the queue has "
        "all it ever had, else at the end. TIME is ISO 8601, or 2h for two hours ago.  [default: auto]",
        creation_form=FormField(
            "Where it begins",
            says={
                "": "as the server decides",
                "earliest": "with the earliest message",
                "latest": "with what comes from now on",
            },
        ),
        form=FormField(
            "Where it begins in a queue in which it has never been",
            "auto, earliest, latest, or a time in milliseconds since 1970",
            is_filled=True,
        ),
    )
    assignment: str = described(
        DEFAULT_ASSIGNMENT,
        Text(_canonical_strategy, "STRATEGY", is_checked_by_option=False),
        "How queues are assigned to members that pull: averagely, averagely-by-circle, consistent-hash, "
        "by-config:c1=0,1;c2=2, machine-room:r1,r2, machine-room-nearby:averagely.  [default: averagely]",
    )
    queue_lock_hold_ms: int = described(
        0,
        Span(SECOND_MS, INVISIBLE_MAX_MS, absent=None, early_none="0s for none"),
        "Let one member at a time pull a queue, until it is silent for this long; 0s: no queue locks.",
        refusal="the queue lock is to be held for {value} ms; {least} to {most} are allowed, 0 for none",
    )
    priority_factor: int = described(
        DEFAULT_PRIORITY_FACTOR,
        Whole(0, 100, metavar="N"),
        "Of 100 receives from a priority topic, N begin with the highest priority, the others with a lower one, "
        f"so that none starves.  [default: {DEFAULT_PRIORITY_FACTOR}]",
        refusal="the priority factor {value} was requested; {least} to {most} are allowed",
    )
    remoting_pop: bool = described(
        False,
        Flag(),
        "Let consumers of RocketMQ 5 that have the server share queues out (remoting protocol, "
        "setClientRebalance(false)) receive messages, as gRPC's do, and not keep offsets.",
    )


GROUP_SETTINGS = settings_of(GroupSettings)
LITE_GROUP_SETTINGS = (
    Setting(
        Choice(LiteModel),
        "Of a lite group: clients that subscribe to a lite topic share its messages (shared), or the latest "
        "subscriber has it alone (exclusive).  [default: shared]",
        attribute="lite_model",
    ),
    Setting(
        Whole(1, LITE_QUOTA_MAX, metavar="N"),
        f"Of a lite group: a client may subscribe to N lite topics.  [default: {DEFAULT_LITE_QUOTA}]",
        attribute="lite_quota",
    ),
    Setting(
        Flag(),
        "Of a lite group: each client subscribes to all lite topics, also to future ones.",
        attribute="lite_wildcard",
    ),
    Setting(
        Words(LITE_RESETS, "WHEN"),
        "Of a lite group: reset its offset in a lite topic when another client takes it over (taken), when its "
        "subscriber drops it (unsubscribed), both (taken,unsubscribed), or never (none).  [default: none]",
        attribute="lite_reset",
    ),
)
"""Those that only lite groups have. On the wire they are the fields of a message of their own."""
