"""Rates of `ternmq top`, and the screen that it draws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq.admin import groups, topics
from ternmq_command.server.diagnosis.rates import TrafficSnapshot, compute_rates
from ternmq_command.server.diagnosis.top_screen import NAME_MIN, ScreenPart, cut_middle, lay_out_screen, share_height
from ternmq_command.terminal.screen import render_screen
from ternmq_protos.admin_v1 import admin_pb2


def look(taken_s: float, ends: dict[str, int], progress: dict[str, tuple[int, int]]) -> TrafficSnapshot:
    """Topics of one queue that end there; groups of topic `a` with cursor and messages in flight."""
    seen = TrafficSnapshot(taken_s)
    for topic, end in ends.items():
        queues = [admin_pb2.QueueState(broker="b", queue_id=0, min_offset=0, max_offset=end)]
        answer = admin_pb2.DescribeTopicResponse(topic=admin_pb2.Topic(name=topic), queues=queues)
        seen.add_topic(topics.describe_topic(topic).read_value(answer))
    for group, (cursor, in_flight) in progress.items():
        entry = admin_pb2.Progress(
            topic="a", broker="b", queue_id=0, cursor=cursor, in_flight=in_flight, max_offset=ends["a"]
        )
        told = admin_pb2.DescribeGroupResponse(group=admin_pb2.Group(name=group), progress=[entry])
        seen.add_group(groups.describe_group(group).read_value(told))
    return seen


def test_rates_are_what_moved_by_the_time_that_passed() -> None:
    now = compute_rates(
        look(10.0, {"a": 100, "b": 0}, {"g": (50, 10), "h": (100, 0)}),
        look(12.0, {"a": 140, "b": 4}, {"g": (80, 20), "h": (140, 0)}),
    )
    assert [(row["topic"], row["in_per_s"], row["out_per_s"]) for row in now["topics"]] == [
        ("a", 20.0, 30.0),
        ("b", 2.0, 0.0),
    ]
    assert [(row["group"], row["out_per_s"], row["lag"]) for row in now["groups"]] == [("g", 10.0, 80), ("h", 20.0, 0)]


def test_what_came_or_went_or_moved_back_between_two_looks_is_no_rate() -> None:
    now = compute_rates(
        look(10.0, {"a": 100, "gone": 7}, {"g": (50, 0)}), look(11.0, {"a": 100, "new": 900}, {"g": (20, 0)})
    )
    assert {row["topic"]: row["in_per_s"] for row in now["topics"]} == {"a": 0.0, "new": 0.0}
    assert [row["out_per_s"] for row in now["groups"]] == [0.0]


def test_a_screen_shows_what_there_is_room_for_and_nothing_acts_on_the_terminal() -> None:
    text = render_screen(["a longer line", "b\x1b[2J", "c", "d"], 5, 4)
    assert text == "\x1b[Ha lon\x1b[K\r\nb\\x1b\x1b[K\r\nc\x1b[K\r\n\x1b[J"


HEAD = ["ternmq top", "in 1.0/s"]
LONG = "com_example_a-company-with-a-long-name_billing_orders-that-were-created"


def part(kind: str, count: int, *, name: str = "name", nothing: str = "") -> ScreenPart:
    rows = [{kind: f"{name}-{number}", "in/s": 1234.5, "messages": 1_000_000 + number} for number in range(count)]
    return ScreenPart(rows, nothing or f"no {kind}s")


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (80, 9), (200, 60), (60, 100), (45, 12)])
def test_groups_are_seen_beside_topics_that_fill_the_screen_and_figures_beside_long_names(
    columns: int, rows: int
) -> None:
    lines = lay_out_screen(HEAD, (part("topic", 90, name=LONG), part("group", 40, name=LONG)), columns, rows)
    assert len(lines) <= rows
    assert all(len(line) <= columns for line in lines)
    for kind in ("TOPIC", "GROUP"):
        at = next(number for number, line in enumerate(lines) if line.startswith(kind))
        assert "1234.5" in lines[at + 1]
        assert "1000000" in lines[at + 1]


def test_a_name_that_is_cut_keeps_both_of_its_ends() -> None:
    assert [cut_middle(text, 6) for text in ("abcdef", "abcdefg", "abcdefghij")] == ["abcdef", "abc…fg", "abc…ij"]


def test_what_is_left_out_is_counted_and_what_one_kind_leaves_the_other_has() -> None:
    lines = lay_out_screen(HEAD, (part("topic", 90), part("group", 2)), 80, 24)
    assert len(lines) == 24
    assert sum(line.startswith("name-") for line in lines) == 15 + 2
    assert "… and 75 more" in lines
    assert lines[-2].startswith("name-0")
    assert lines[-1].startswith("name-1")


def test_short_names_and_few_rows_are_as_they_are() -> None:
    lines = lay_out_screen(HEAD, (part("topic", 2), part("group", 0)), 80, 24)
    assert lines[2:] == ["", *part("topic", 2).format_lines(10**6, 10**6), "", "no groups"]


@given(first=st.integers(1, 300), second=st.integers(1, 300), room=st.integers(2, 100))
def test_room_is_shared(first: int, second: int, room: int) -> None:
    mine, others = share_height(first, second, room)
    assert mine + others == min(first + second, room)
    assert mine >= min(first, room // 2)
    assert others >= min(second, room // 2)


@given(
    columns=st.integers(1, 120),
    rows=st.integers(1, 40),
    names=st.lists(st.text("abc", min_size=1, max_size=99), max_size=9),
)
def test_any_size_has_a_layout(columns: int, rows: int, names: list[str]) -> None:
    found = ScreenPart([{"topic": name, "messages": 1} for name in names], "none")
    lines = lay_out_screen(HEAD, (found, found), columns, rows)
    assert len(lines) <= max(rows, len(HEAD))
    assert all(len(line) <= max(columns, NAME_MIN + len("  MESSAGES")) for line in lines[len(HEAD) :])
