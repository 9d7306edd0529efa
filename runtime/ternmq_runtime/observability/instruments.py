"""All metric instruments: name, unit and description.

Names follow OpenTelemetry's conventions where one fits, else they begin with `ternmq.`. In Prometheus they have
underscores, the unit, and `_total` for counters.
"""

from dataclasses import dataclass
from enum import Enum

TOPIC = "messaging.destination.name"
GROUP = "messaging.consumer.group.name"
METHOD = "rpc.method"
CODE = "rpc.response.status_code"
BROKER = "ternmq.broker.name"
REPLICA = "ternmq.replica.name"
LIMIT = "ternmq.limit"
ROLE = "ternmq.replica.role"
CERTIFICATE = "ternmq.tls.certificate"


class InstrumentKind(Enum):
    """COUNTER only grows; LEVEL goes up and down, and can be summed over processes; GAUGE can't be summed."""

    COUNTER = "counter"
    LEVEL = "level"
    GAUGE = "gauge"
    DURATION = "duration"


@dataclass(frozen=True, slots=True)
class Instrument:
    """A metric. `unit` is UCUM's; in braces it is only a remark."""

    name: str
    kind: InstrumentKind
    unit: str
    description: str


_MESSAGES = "{message}"

# --- calls of clients

CALL_DURATION = Instrument(
    "rpc.server.call.duration", InstrumentKind.DURATION, "s", "Calls of clients but those that wait for messages"
)
POLL_DURATION = Instrument(
    "ternmq.poll.duration", InstrumentKind.DURATION, "s", "Calls that wait for messages, with the time that they waited"
)
BYTES_IN = Instrument("ternmq.front.received", InstrumentKind.COUNTER, "By", "Bytes of requests, without headers")
BYTES_OUT = Instrument("ternmq.front.sent", InstrumentKind.COUNTER, "By", "Bytes of answers, without headers")
CLIENTS = Instrument("ternmq.front.clients", InstrumentKind.LEVEL, "{client}", "Clients with an open Telemetry stream")
STREAMS = Instrument("ternmq.front.streams", InstrumentKind.LEVEL, "{stream}", "Open Telemetry streams")
CONNECTIONS = Instrument("ternmq.front.connections", InstrumentKind.LEVEL, "{connection}", "Connections of clients")
REQUESTS_HELD = Instrument(
    "ternmq.front.requests.held", InstrumentKind.LEVEL, "By", "Bytes of requests that are under way"
)
ANSWERS_UNREAD = Instrument(
    "ternmq.front.answers.unread", InstrumentKind.LEVEL, "By", "Bytes of answers that clients do not read"
)
LIMITS_PASSED = Instrument(
    "ternmq.front.limits.passed", InstrumentKind.COUNTER, "{time}", "Times that a client went beyond a limit of traffic"
)
SHEDDING = Instrument(
    "ternmq.front.shedding",
    InstrumentKind.LEVEL,
    "{process}",
    "1 while sends are refused that are more than can be done",
)
FRONT_POLLS = Instrument("ternmq.front.polls", InstrumentKind.LEVEL, "{call}", "Calls under way that wait for messages")

# --- messages

SENT = Instrument(
    "ternmq.messages.sent", InstrumentKind.COUNTER, _MESSAGES, "Messages that were stored, timed ones included"
)
DELIVERED = Instrument(
    "ternmq.messages.delivered", InstrumentKind.COUNTER, _MESSAGES, "Messages that were handed out or pulled"
)
ACKNOWLEDGED = Instrument(
    "ternmq.messages.acknowledged", InstrumentKind.COUNTER, _MESSAGES, "Messages that a group has finished"
)
RETRIES = Instrument(
    "ternmq.messages.retries", InstrumentKind.COUNTER, _MESSAGES, "Copies that were stored in retry topics"
)
DEAD_LETTERS = Instrument(
    "ternmq.messages.dead_letters", InstrumentKind.COUNTER, _MESSAGES, "Messages of a group that became dead letters"
)
LOST = Instrument(
    "ternmq.messages.lost", InstrumentKind.COUNTER, _MESSAGES, "Messages that were to be read and were not there"
)
LAG = Instrument("ternmq.consumer.lag", InstrumentKind.LEVEL, _MESSAGES, "Messages that a group has not finished")
IN_FLIGHT = Instrument(
    "ternmq.consumer.in_flight", InstrumentKind.LEVEL, _MESSAGES, "Messages of those that were handed out"
)
OLDEST_AGE = Instrument(
    "ternmq.consumer.oldest.age", InstrumentKind.GAUGE, "s", "Age of the oldest message that a group has not finished"
)
LOST_UNREAD = Instrument(
    "ternmq.consumer.lost",
    InstrumentKind.LEVEL,
    _MESSAGES,
    "Messages that retention or a purge took before a group had read them",
)
TIMERS = Instrument("ternmq.timers.pending", InstrumentKind.LEVEL, _MESSAGES, "Messages that wait for their time")
TRANSACTIONS = Instrument(
    "ternmq.transactions.open", InstrumentKind.LEVEL, "{transaction}", "Half messages that wait for an end"
)

# --- store

LOG_BYTES = Instrument("ternmq.store.log.size", InstrumentKind.LEVEL, "By", "Bytes of the commit log")
SEGMENTS = Instrument("ternmq.store.segments", InstrumentKind.LEVEL, "{file}", "Files of the commit log")
DISK_USED = Instrument(
    "ternmq.store.disk.used", InstrumentKind.GAUGE, "{share}", "Share of the disk below the store that is used"
)
DISK_FREE = Instrument(
    "ternmq.store.disk.free", InstrumentKind.GAUGE, "By", "Bytes that are free on the disk below the store"
)
DISK_FREE_MIN = Instrument(
    "ternmq.store.disk.free_min", InstrumentKind.GAUGE, "By", "Bytes of it that new messages must leave"
)
DISK_REFUSES = Instrument(
    "ternmq.store.disk.refusing",
    InstrumentKind.LEVEL,
    "{broker}",
    "1 while messages are refused for want of room or files",
)
RECORDS = Instrument(
    "ternmq.store.records", InstrumentKind.COUNTER, "{record}", "Records that were appended to the commit log"
)
SKIPPED = Instrument(
    "ternmq.store.skipped", InstrumentKind.COUNTER, "By", "Bytes of damaged records that recovery stepped over"
)
TORN = Instrument("ternmq.store.torn", InstrumentKind.COUNTER, "By", "Bytes of a torn tail that recovery cut off")
DAMAGED = Instrument(
    "ternmq.store.damaged", InstrumentKind.LEVEL, "By", "Bytes of the commit log that are known to be damaged"
)
REPAIRED = Instrument(
    "ternmq.store.repaired",
    InstrumentKind.COUNTER,
    "By",
    "Damaged bytes of the commit log that were repaired from a replica",
)
JOURNAL_SKIPPED = Instrument(
    "ternmq.store.journal.skipped", InstrumentKind.COUNTER, "{line}", "Damaged lines of the consumption journal"
)
SET_ASIDE = Instrument(
    "ternmq.store.set_aside", InstrumentKind.LEVEL, "{file}", "Files of bytes that were cut off or stepped over"
)
SYNC_DURATION = Instrument(
    "ternmq.store.sync.duration", InstrumentKind.DURATION, "s", "Syncs of the commit log (fdatasync)"
)
ACCEPTS = Instrument("ternmq.broker.accepting", InstrumentKind.LEVEL, "{broker}", "1 while the broker stores messages")
BROKER_POLLS = Instrument("ternmq.broker.polls", InstrumentKind.LEVEL, "{poll}", "Polls that wait on the broker")
PROXIES = Instrument(
    "ternmq.broker.proxies", InstrumentKind.LEVEL, "{proxy}", "Proxies that are connected to the broker"
)

# --- cluster

LINK_UP = Instrument("ternmq.link.up", InstrumentKind.LEVEL, "{link}", "1 while the proxy is connected to the broker")
LINK_SET_ASIDE = Instrument(
    "ternmq.link.set_aside", InstrumentKind.LEVEL, "{link}", "1 while its circuit breaker is open"
)
LINK_CALLS = Instrument("ternmq.link.calls", InstrumentKind.COUNTER, "{call}", "Calls to the broker")
LINK_FAILURES = Instrument(
    "ternmq.link.failures", InstrumentKind.COUNTER, "{call}", "Calls that the broker did not answer: late, or lost"
)
LINK_FRAMES_OUT = Instrument(
    "ternmq.link.frames.sent", InstrumentKind.COUNTER, "{frame}", "Frames of calls to the broker"
)
LINK_FRAMES_IN = Instrument(
    "ternmq.link.frames.received", InstrumentKind.COUNTER, "{frame}", "Frames of answers from it"
)
COLD_PULLS = Instrument(
    "ternmq.cold.pulls",
    InstrumentKind.COUNTER,
    "{pull}",
    "Pulls far behind the end of a queue, by the role of the replica that answered",
)
REGISTRY_REACHABLE = Instrument(
    "ternmq.registry.reachable", InstrumentKind.LEVEL, "{process}", "1 while it can be reached"
)
REGISTRY_VERSION = Instrument(
    "ternmq.registry.version", InstrumentKind.GAUGE, "{version}", "The version that is known here"
)
REGISTRY_COPY_AGE = Instrument(
    "ternmq.registry.copy.age",
    InstrumentKind.GAUGE,
    "s",
    "How old the copy of the registry is that the process goes on with; 0 if it has read the registry itself",
)
CLOCK_SKEW = Instrument(
    "ternmq.clock.skew",
    InstrumentKind.GAUGE,
    "s",
    "How far the process's clock is ahead of the registry's; below 0: behind",
)
LEASE_AGE = Instrument("ternmq.lease.age", InstrumentKind.GAUGE, "s", "Time since the broker's lease was renewed")

# --- replicas of a shard, which the label `ternmq.broker.name` names

REPLICA_LEADING = Instrument(
    "ternmq.replica.leading", InstrumentKind.LEVEL, "{replica}", "1 while this replica leads its shard"
)
REPLICA_SERVING = Instrument(
    "ternmq.replica.serving",
    InstrumentKind.LEVEL,
    "{replica}",
    "1 while it leads, and no other replica can be the leader",
)
REPLICA_EPOCH = Instrument(
    "ternmq.replica.epoch", InstrumentKind.GAUGE, "{epoch}", "The latest leader's that it knows of"
)
REPLICA_TIMES_LED = Instrument(
    "ternmq.replica.leaderships", InstrumentKind.COUNTER, "{time}", "Times that this process became the leader"
)
REPLICA_POSITION = Instrument("ternmq.replica.position", InstrumentKind.GAUGE, "By", "Up to where its log is durable")
REPLICA_ACKNOWLEDGED = Instrument(
    "ternmq.replica.acknowledged",
    InstrumentKind.GAUGE,
    "By",
    "Up to where all in-sync replicas hold the log, as it knows",
)
REPLICA_BEHIND = Instrument(
    "ternmq.replica.behind",
    InstrumentKind.LEVEL,
    "By",
    "Of a follower: the leader's log that it had not, when it heard last",
)
SHARD_IN_SYNC = Instrument(
    "ternmq.shard.in_sync", InstrumentKind.LEVEL, "{replica}", "Replicas in sync; reported by the leader"
)
SHARD_REPLICAS = Instrument(
    "ternmq.shard.replicas",
    InstrumentKind.LEVEL,
    "{replica}",
    "Replicas that the shard should have; reported by the leader",
)
SHARD_MIN_INSYNC = Instrument(
    "ternmq.shard.min_insync",
    InstrumentKind.LEVEL,
    "{replica}",
    "Replicas that must have a message; reported by the leader",
)
SHARD_REFUSING = Instrument(
    "ternmq.shard.refusing",
    InstrumentKind.LEVEL,
    "{shard}",
    "1 while its leader refuses messages that too few would have",
)
FOLLOWER_BEHIND = Instrument(
    "ternmq.shard.follower.behind", InstrumentKind.LEVEL, "By", "The log that a follower lacks; reported by the leader"
)

# --- process

CERTIFICATE_EXPIRY = Instrument(
    "ternmq.tls.certificate.expiry", InstrumentKind.GAUGE, "s", "Time until a certificate ends that the process shows"
)
CPU_TIME = Instrument("process.cpu.time", InstrumentKind.COUNTER, "s", "Processor time of the process")
MEMORY = Instrument("process.memory.usage", InstrumentKind.LEVEL, "By", "Memory that the process has in RAM")
FILES = Instrument(
    "process.open_file_descriptor.count", InstrumentKind.LEVEL, "{count}", "Files and sockets that are open"
)
UPTIME = Instrument("process.uptime", InstrumentKind.GAUGE, "s", "Time since the process could begin")

INSTRUMENTS: tuple[Instrument, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Instrument)
)
OF_NAMES = frozenset({SENT, DELIVERED, ACKNOWLEDGED, DEAD_LETTERS, LAG, IN_FLIGHT, OLDEST_AGE, LOST_UNREAD})
"""The instruments with a series for each topic or group."""
