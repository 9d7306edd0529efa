"""Backlog: what a group has not consumed of a topic moves to a topic with more queues, so that more consumers share it.

    backlog.run(spark, BacklogOptions(connection=..., group="billing", topic="orders", to="orders-wide", queues=64,
                                      checkpoint="/data/moves/orders"))

Plan        how far the move goes in each queue is settled once and kept in the checkpoint; see `backlog_plan`.
Progress    is the group's own: its offset in the source moves when everything up to it is stored in the target. So a
            move that ends anywhere loses nothing, and goes on from there; the step that it ended in comes twice.
Ids         messages keep theirs, so readers can drop repeated ones. Keys, tags, properties, bodies and message
            groups stay as well; the time of birth is that of the move.
Order       a message group is in one queue, hence in one task, and steps follow each other.
Beginning   before the first message is sent, the group gets an offset in every queue of the target: a group that begins
            at the end of queues that are new to it would pass over what was moved there.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from pyspark_ternmq.pipelines.administration import PipelineAdministrator
from pyspark_ternmq.pipelines.backlog_plan import (
    BacklogPlan,
    BacklogRefused,
    check_idle,
    first_offset,
    plan_move,
    type_name,
)
from pyspark_ternmq.pipelines.journal_stores import journal_at
from pyspark_ternmq.pipelines.progress import ProgressLine, QueryPosition
from pyspark_ternmq.pipelines.sending import derived_id, in_lanes, send, tasks_of
from pyspark_ternmq.source.offsets.splitting import limit_end
from pyspark_ternmq.source.topics import queue_name
from ternmq import NotFound
from ternmq_protos.admin_v1 import admin_pb2

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_ternmq.pipelines.connection import PipelineConnection
    from ternmq.connections.route import RouteQueue

NAME = "backlog"
STEP_ROWS = 50_000
COLUMNS = (
    "broker string, queue_id int, offset bigint, message_id string, keys array<string>, tag string, "
    "message_group string, body binary, properties map<string,string>, corrupt string"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogOptions:
    """A topic that is created gets `queues` on each broker; the offset moves after `step_rows` messages."""

    connection: "PipelineConnection"
    group: str
    topic: str
    to: str
    queues: int
    checkpoint: str
    step_rows: int = STEP_ROWS
    include_in_flight: bool = False

    def __post_init__(self) -> None:
        if self.topic == self.to:
            raise ValueError(f"topic and to are both {self.topic}")
        if self.queues < 1 or self.step_rows < 1:
            raise ValueError("queues and step_rows must be at least 1")

    def identity(self) -> dict[str, object]:
        """Return the values with which a checkpoint must agree."""
        return {"pipeline": "backlog", "group": self.group, "topic": self.topic, "to": self.to}


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogReport:
    """The result of a run, which `moved` messages out of `planned` offsets; `missing` messages were gone. `queues`:
    what a broker has."""

    planned: int
    moved: int
    missing: int
    steps: int
    queues: int


def run(
    spark: "SparkSession",
    options: BacklogOptions,
    *,
    line: ProgressLine | None = None,
    confirm: Callable[[int], None] = lambda count: None,
) -> BacklogReport:
    """Move all messages. `confirm` gets the number of those left before anything changes, and may raise."""
    with journal_at(spark, options.checkpoint) as journal, PipelineAdministrator.at(options.connection) as admin:
        if not options.include_in_flight:
            check_idle(admin.describe_group(options.group), options.topic)
        kept = journal.load_plan(
            options.identity(), lambda: plan_move(admin, group=options.group, topic=options.topic).as_json()
        )
        plan = BacklogPlan(**kept)
        move = _BacklogMove(spark, options, plan, admin)
        if move.left:
            confirm(move.left)
        with line or ProgressLine(NAME) as shown:
            return move.run(shown)


class _BacklogMove:
    """Invariant: `_positions` are offsets of the group in the source, below which all is stored in the target."""

    def __init__(
        self, spark: "SparkSession", options: BacklogOptions, plan: BacklogPlan, admin: PipelineAdministrator
    ) -> None:
        self._spark, self._options, self._plan, self._admin = spark, options, plan, admin
        self._queues: dict[str, RouteQueue] = {queue_name(queue): queue for queue in admin.queues(plan.topic)}
        gone = plan.ends.keys() - self._queues.keys()
        if gone:
            raise BacklogRefused(f"queues of {plan.topic} are not in the route now: {', '.join(sorted(gone))}")
        self._positions = {name: self._moved_rows(name) for name in plan.ends}
        self._moved = self._missing = self._steps = 0

    @property
    def left(self) -> int:
        """Offsets that are still to go."""
        return sum(end - self._positions[name] for name, end in self._plan.ends.items())

    def _moved_rows(self, name: str) -> int:
        """How far the move, or the group without it, has come within the planned offsets."""
        start, end = self._plan.starts[name], self._plan.ends[name]
        committed = self._admin.committed(self._options.group, self._queues[name])
        return start if committed is None else min(max(start, committed), end)

    def run(self, line: ProgressLine) -> BacklogReport:
        queues = 0
        if self.left:
            queues = self._prepare_target()
            # Refused, if it is, before anything was sent: another reader may have the queue for itself.
            self._commit_offsets(self._positions)
        while self.left:
            self._move_step(line)
        if self._missing:
            line.print_line(f"{self._missing:,} messages were not there any more when they were to be moved: retention")
        return BacklogReport(
            planned=self._plan.total, moved=self._moved, missing=self._missing, steps=self._steps, queues=queues
        )

    def _prepare_target(self) -> int:
        """Make the target unless it is there, and let the group begin in it; how many queues it has on each broker."""
        options, source = self._options, self._admin.describe_topic(self._plan.topic).topic
        try:
            target = self._admin.describe_topic(options.to).topic
        except NotFound:
            wanted = admin_pb2.Topic(name=options.to, type=source.type, queues=options.queues)
            self._admin.create_topic(wanted)
            target = self._admin.describe_topic(options.to).topic
        if target.type != source.type:
            raise BacklogRefused(
                f"topic {options.to} is there and takes {type_name(target)} messages, those of {source.name} are "
                f"{type_name(source)}; choose another"
            )
        self._begin_group(self._admin.describe_group(options.group).group.consume_from)
        return target.queues

    def _begin_group(self, consume_from: str) -> None:
        group, admin = self._options.group, self._admin
        queues = admin.queues(self._options.to)
        for queue, first, end in zip(
            queues, admin.offsets(queues, "earliest"), admin.offsets(queues, "latest"), strict=True
        ):
            if admin.committed(group, queue) is None:
                admin.commit(group, [(queue, first_offset(admin, consume_from, queue, first, end))])

    def _move_step(self, line: ProgressLine) -> None:
        """Read and send messages; commit their offsets only then."""
        started_s = time.monotonic()
        topic = self._plan.topic
        ends = limit_end({topic: dict(self._positions)}, {topic: dict(self._plan.ends)}, self._options.step_rows)[topic]
        expected = sum(end - self._positions[name] for name, end in ends.items())
        moved = send(self._read_copies(ends), self._options.connection, topic=self._options.to)
        self._commit_offsets(ends)
        self._moved += moved
        self._missing += expected - moved
        self._steps += 1
        duration_s = time.monotonic() - started_s
        line.update(
            QueryPosition(rows=self._moved, rows_per_second=moved / duration_s, batch=self._steps - 1, lag=self.left)
        )

    def _read_copies(self, ends: Mapping[str, int]) -> "DataFrame":
        # The source also wants offsets for queues that were added since the plan was written.
        names = [queue_name(queue) for queue in self._admin.queues(self._plan.topic)]
        source = self._spark.read.format("ternmq").schema(COLUMNS).options(**self._options.connection.options())
        rows = source.options(
            subscribe=self._plan.topic,
            startingOffsets=json.dumps(self._plan.whole(self._positions, names)),
            endingOffsets=json.dumps(self._plan.whole(ends, names)),
            failOnDataLoss="false",
        ).load()
        place = f.concat_ws("/", "broker", "queue_id", "offset")
        unreadable = f.concat(place, f.lit(": "), "corrupt", f.lit("; `ternmq backlog move` moves it as it is"))
        own_id = f.coalesce(f.expr("nullif(message_id, '')"), derived_id("backlog", f.lit(self._plan.topic), place))
        rows = rows.withColumn(
            "message_id", f.when(f.col("corrupt").isNull(), own_id).otherwise(f.raise_error(unreadable))
        )
        lanes = in_lanes(rows, order=["broker", "queue_id", "offset"], tasks=tasks_of(rows))
        return lanes.drop("corrupt", "broker", "queue_id", "offset")

    def _commit_offsets(self, offsets: Mapping[str, int]) -> None:
        progress = [(self._queues[name], offset) for name, offset in offsets.items()]
        self._admin.commit(self._options.group, progress)
        self._positions = dict(offsets)
