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


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"topics": []}, "at least one topic"),
        ({"topics": ["a", ""]}, "at least one topic"),
        ({"out": None}, "where the windows go"),
        ({"to": "orders"}, "counted themselves"),
        ({"by": []}, "some of topic, tag, key"),
        ({"by": ["topic", "topic"]}, "each once"),
        ({"by": ["broker"]}, "some of topic, tag, key"),
        ({"window": timedelta(0)}, "at least a millisecond"),
        ({"delay": timedelta(seconds=-1)}, "not negative"),
    ],
)
def test_stats_refuses(wrong: dict[str, Any], words: str) -> None:
    right: dict[str, Any] = {"connection": CONNECTION, "topics": ["orders"], "checkpoint": "c", "out": "o"}
    StatsOptions(**right)
    with pytest.raises(ValueError, match=words):
        StatsOptions(**right | wrong)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"paths": []}, "name the files"),
        ({"order": "sent"}, "neither born nor stored"),
        ({"file_format": "csv"}, "none of parquet, json"),
        ({"rows_per_second": 1.0, "speed": 1.0}, "exclude each other"),
        ({"rows_per_second": 0.0}, "must be above 0"),
        ({"speed": float("inf")}, "must be above 0"),
        ({"tick": timedelta(milliseconds=5)}, "at least 100 ms"),
        ({"step_rows": 0}, "at least 1"),
        ({"since": datetime(2026, 1, 1)}, "needs a time zone"),  # noqa: DTZ001
    ],
)
def test_replay_refuses(wrong: dict[str, Any], words: str) -> None:
    right: dict[str, Any] = {"paths": ["files"], "to": "orders", "connection": CONNECTION}
    ReplayOptions(**right)
    with pytest.raises(ValueError, match=words):
        ReplayOptions(**right | wrong)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"send": True}, "send needs a checkpoint"), ({"limit": 0}, "limit=0"), ({"step_rows": 0}, "step_rows=0")],
)
def test_dlq_refuses(wrong: dict[str, Any], words: str) -> None:
    right: dict[str, Any] = {"connection": CONNECTION, "group": "billing"}
    assert DlqOptions(**right).topic == "%DLQ%billing"
    with pytest.raises(ValueError, match=words):
        DlqOptions(**right | wrong)


@pytest.mark.parametrize("wrong", [{"to": "orders"}, {"queues": 0}, {"step_rows": 0}])
def test_backlog_refuses(wrong: dict[str, Any]) -> None:
    right: dict[str, Any] = {
        "connection": CONNECTION, "group": "g", "topic": "orders", "to": "wide", "queues": 64, "checkpoint": "c"
    }  # fmt: skip
    BacklogOptions(**right)
    with pytest.raises(ValueError, match=r"both orders|at least 1"):
        BacklogOptions(**right | wrong)


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
