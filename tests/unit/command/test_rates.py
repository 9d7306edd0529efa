"""Rates of `ternmq top`, and the screen that it draws."""

from ternmq.admin import groups, topics
from ternmq_command.server.rates import Look, rates
from ternmq_command.terminal.screen import drawn
from ternmq_protos.admin_v1 import admin_pb2


def look(taken_s: float, ends: dict[str, int], progress: dict[str, tuple[int, int]]) -> Look:
    """Topics of one queue that end there; groups of topic `a` with cursor and messages in flight."""
    seen = Look(taken_s)
    for topic, end in ends.items():
        queues = [admin_pb2.QueueState(broker="b", queue_id=0, min_offset=0, max_offset=end)]
        answer = admin_pb2.DescribeTopicResponse(topic=admin_pb2.Topic(name=topic), queues=queues)
        seen.add_topic(topics.describe(topic).value(answer))
    for group, (cursor, in_flight) in progress.items():
        entry = admin_pb2.Progress(
            topic="a", broker="b", queue_id=0, cursor=cursor, in_flight=in_flight, max_offset=ends["a"]
        )
        told = admin_pb2.DescribeGroupResponse(group=admin_pb2.Group(name=group), progress=[entry])
        seen.add_group(groups.describe(group).value(told))
    return seen


def test_rates_are_what_moved_by_the_time_that_passed() -> None:
    now = rates(
        look(10.0, {"a": 100, "b": 0}, {"g": (50, 10), "h": (100, 0)}),
        look(12.0, {"a": 140, "b": 4}, {"g": (80, 20), "h": (140, 0)}),
    )
    assert [(row["topic"], row["in_per_s"], row["out_per_s"]) for row in now["topics"]] == [
        ("a", 20.0, 30.0),
        ("b", 2.0, 0.0),
    ]
    assert [(row["group"], row["out_per_s"], row["lag"]) for row in now["groups"]] == [("g", 10.0, 80), ("h", 20.0, 0)]


def test_what_came_or_went_or_moved_back_between_two_looks_is_no_rate() -> None:
    now = rates(look(10.0, {"a": 100, "gone": 7}, {"g": (50, 0)}), look(11.0, {"a": 100, "new": 900}, {"g": (20, 0)}))
    assert {row["topic"]: row["in_per_s"] for row in now["topics"]} == {"a": 0.0, "new": 0.0}
    assert [row["out_per_s"] for row in now["groups"]] == [0.0]


def test_a_screen_shows_what_there_is_room_for_and_nothing_acts_on_the_terminal() -> None:
    text = drawn(["a longer line", "b\x1b[2J", "c", "d"], 5, 4)
    assert text == "\x1b[Ha lon\x1b[K\r\nb\\x1b\x1b[K\r\nc\x1b[K\r\n\x1b[J"
