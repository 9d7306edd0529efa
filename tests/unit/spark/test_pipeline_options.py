"""What the options of stats, replay, dlq and backlog refuse, before a session is there."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from pyspark_ternmq.pipelines.backlog import BacklogOptions
from pyspark_ternmq.pipelines.backlog_plan import BacklogPlan, BacklogRefused, check_idle, check_movable
from pyspark_ternmq.pipelines.connection import PipelineConnection
from pyspark_ternmq.pipelines.dead_letters.dlq import DlqOptions
from pyspark_ternmq.pipelines.replaying.replay import ReplayOptions
from pyspark_ternmq.pipelines.replaying.replay_source import format_of
from pyspark_ternmq.pipelines.stats import StatsOptions
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb

CONNECTION = PipelineConnection(endpoint="127.0.0.1:8081")


RIGHT: dict[type, dict[str, Any]] = {
    StatsOptions: {"connection": CONNECTION, "topics": ["orders"], "checkpoint": "c", "out": "o"},
    ReplayOptions: {"paths": ["files"], "to": "orders", "connection": CONNECTION},
    DlqOptions: {"connection": CONNECTION, "group": "billing"},
    BacklogOptions: {
        "connection": CONNECTION, "group": "g", "topic": "orders", "to": "wide", "queues": 64, "checkpoint": "c"
    },
}  # fmt: skip


@pytest.mark.parametrize("options", RIGHT, ids=lambda options: options.__name__)
def test_what_can_be_is_accepted(options: type) -> None:
    options(**RIGHT[options])
    assert DlqOptions(**RIGHT[DlqOptions]).topic == "%DLQ%billing"


@pytest.mark.parametrize(
    ("options", "wrong", "words"),
    [
        (StatsOptions, {"topics": []}, "at least one topic"),
        (StatsOptions, {"topics": ["a", ""]}, "at least one topic"),
        (StatsOptions, {"out": None}, "where the windows go"),
        (StatsOptions, {"to": "orders"}, "counted themselves"),
        (StatsOptions, {"by": []}, "some of topic, tag, key"),
        (StatsOptions, {"by": ["topic", "topic"]}, "each once"),
        (StatsOptions, {"by": ["broker"]}, "some of topic, tag, key"),
        (StatsOptions, {"window": timedelta(0)}, "at least a millisecond"),
        (StatsOptions, {"delay": timedelta(seconds=-1)}, "not negative"),
        (ReplayOptions, {"paths": []}, "name the files"),
        (ReplayOptions, {"order": "sent"}, "neither born nor stored"),
        (ReplayOptions, {"file_format": "csv"}, "none of parquet, json"),
        (ReplayOptions, {"rows_per_second": 1.0, "speed": 1.0}, "exclude each other"),
        (ReplayOptions, {"rows_per_second": 0.0}, "must be above 0"),
        (ReplayOptions, {"speed": float("inf")}, "must be above 0"),
        (ReplayOptions, {"tick": timedelta(milliseconds=5)}, "at least 100 ms"),
        (ReplayOptions, {"step_rows": 0}, "at least 1"),
        (ReplayOptions, {"since": datetime(2026, 1, 1)}, "needs a time zone"),  # noqa: DTZ001
        (DlqOptions, {"send": True}, "send needs a checkpoint"),
        (DlqOptions, {"limit": 0}, "limit=0"),
        (DlqOptions, {"step_rows": 0}, "step_rows=0"),
        (BacklogOptions, {"to": "orders"}, "both orders"),
        (BacklogOptions, {"queues": 0}, "at least 1"),
        (BacklogOptions, {"step_rows": 0}, "at least 1"),
    ],
)
def test_what_can_not_be_is_refused(options: type, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        options(**RIGHT[options] | wrong)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["a.jsonl"], "json"),
        (["a.json", "b.ndjson.gz"], "json"),
        (["a.json", "b.parquet"], "parquet"),
        (["folder"], "parquet"),
        (["s3a://bucket/lake/data"], "parquet"),
    ],
)
def test_names_of_files_say_what_they_are(paths: list[str], expected: str) -> None:
    assert format_of(paths) == expected


def test_a_plan_names_all_queues_and_reads_nothing_of_those_without_a_part() -> None:
    plan = BacklogPlan("orders", {"b/0": 3}, {"b/0": 9})
    assert plan.total == 6
    assert plan.whole(plan.starts, ["b/0", "b/1"]) == {"orders": {"b/0": 3, "b/1": 0}}
    assert BacklogPlan(**plan.as_json()) == plan


@pytest.mark.parametrize("kind", [pb.DELAY, pb.TRANSACTION, pb.PRIORITY, pb.LITE])
def test_kinds_of_topics_that_cannot_be_moved(kind: pb.MessageType) -> None:
    with pytest.raises(BacklogRefused, match=f"is a {pb.MessageType.Name(kind).lower()} topic"):
        check_movable(admin_pb2.Topic(name="orders", type=kind))


def test_dead_letters_are_not_moved() -> None:
    with pytest.raises(BacklogRefused, match="belongs to the broker"):
        check_movable(admin_pb2.Topic(name="%DLQ%billing", type=pb.NORMAL))


def test_a_group_at_work_elsewhere_is_idle() -> None:
    group = admin_pb2.DescribeGroupResponse(
        group=admin_pb2.Group(name="billing"),
        members=[admin_pb2.Member(client_id="c", subscriptions={"payments": "*"})],
        progress=[admin_pb2.Progress(topic="payments", in_flight=3)],
    )
    check_idle(group, "orders")
    with pytest.raises(BacklogRefused, match="the first is c"):
        check_idle(group, "payments")
    del group.members[:]
    with pytest.raises(BacklogRefused, match="3 messages of payments are in flight"):
        check_idle(group, "payments")
