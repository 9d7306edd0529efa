"""What a stream does about messages that went before it had read them, as its reader decides without a Spark."""

import logging
from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pyspark_ternmq.logs import log_as_spark
from pyspark_ternmq.schema import SCHEMA
from pyspark_ternmq.source.offsets.loss import DataLoss, LossLedger, LostRange, describe_lost, explain_ranges
from pyspark_ternmq.source.offsets.position import Kept
from pyspark_ternmq.source.offsets.splitting import RangePartition
from pyspark_ternmq.source.stream import TopicStreamReader
from ternmq import NotFound
from ternmq.admin import topics
from ternmq.admin import topics as topic_calls
from ternmq.pull.offset_reader import OffsetReader
from ternmq.testing import Stack
from ternmq_command.calls.admin import AdminClient
from tests.support.spark import send_bodies

ALL = ReadAllAvailable()


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(test_clock=False) as running:
        yield running


@pytest.fixture
def topic(stack: Stack) -> str:
    """With ten messages in its only queue."""
    name = stack.fresh_name()
    stack.create_topic(name, queues=1)
    send_bodies(stack.endpoint, name, [str(number) for number in range(10)])
    return name


def reader_of(stack: Stack, names: str, *, strict: bool = False, **options: str) -> TopicStreamReader:
    given = {"endpoint": stack.endpoint, "subscribe": names, "startingOffsets": "earliest", **options}
    return TopicStreamReader({**given, "failOnDataLoss": str(strict)}, SCHEMA)


def ranges(reader: TopicStreamReader, start: Kept, end: Kept) -> list[tuple[int, int]]:
    planned = [one for one in reader.partitions(start, end) if isinstance(one, RangePartition)]
    return sorted((one.wanted.start, one.wanted.stop) for one in planned)


def purge(stack: Stack, topic: str) -> None:
    with AdminClient(stack.endpoint) as admin:
        admin.send_call(topics.purge_topic(topic))


def metrics(reader: TopicStreamReader) -> Kept:
    reported = reader.reportLatestOffset()
    assert reported is not None
    found: Kept = reported["@metrics"]
    return found


def test_a_query_begins_behind_what_is_gone_and_says_once_what_that_was(
    stack: Stack, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    reader = reader_of(stack, topic)
    start = reader.initialOffset()
    purge(stack, topic)
    send_bodies(stack.endpoint, topic, ["new", "newer", "newest"])
    end = reader.latestOffset(start, ReadMaxRows(2))
    assert ranges(reader, start, end) == [(10, 12)], "the limit is spent on what is there"
    [warning] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.name == "pyspark_ternmq.source.stream"
    [queue] = start[topic]
    assert warning.getMessage() == (
        "10 messages were lost before this query read them: "
        f"topic {topic}, queue {queue}: 10 from offset 0 on (purged); it goes on with the first that are there"
    )
    assert metrics(reader)["lostMessages"] == 10
    assert metrics(reader)["lostByQueue"] == {topic: {queue: 10}}
    assert metrics(reader)["maxOffsetsBehindLatest"] == 1
    # A restart repeats the micro-batch, and says it again, for it is another process.
    assert ranges(reader_of(stack, topic), start, end) == [(10, 12)]
    following = reader.latestOffset(end, ALL)
    assert ranges(reader, end, following) == [(12, 13)]
    assert metrics(reader)["lostMessages"] == 0
    reader.stop()


def test_a_micro_batch_that_waits_keeps_what_was_lost_for_its_figures(
    stack: Stack, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    reader = reader_of(stack, topic, minOffsetsPerTrigger="5")
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    send_bodies(stack.endpoint, topic, ["gone"])
    purge(stack, topic)
    send_bodies(stack.endpoint, topic, ["new"])
    for _ in range(2):
        assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
        assert metrics(reader)["lostMessages"] == 1
    assert caplog.text.count("was lost before") == 1
    reader.stop()


def test_where_a_loss_is_an_error_the_driver_says_it(stack: Stack, topic: str) -> None:
    reader = reader_of(stack, topic, strict=True)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    purge(stack, topic)
    with pytest.raises(DataLoss, match=r"10 messages were lost .*\(purged\).* set the option failOnDataLoss"):
        reader_of(stack, topic, strict=True).partitions(start, end)
    send_bodies(stack.endpoint, topic, ["new"])
    with pytest.raises(DataLoss, match=r"10 messages were lost"):
        reader.latestOffset(start, ALL)
    reader.stop()


def test_a_deleted_topic_ends_nothing_unless_a_loss_is_an_error(
    stack: Stack, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = stack.fresh_name()
    stack.create_topic(other, queues=1)
    names = f"{topic},{other}"
    lenient, strict = reader_of(stack, names), reader_of(stack, names, strict=True)
    start = lenient.initialOffset()
    end = lenient.latestOffset(start, ALL)
    with AdminClient(stack.endpoint) as admin:
        admin.send_call(topic_calls.delete_topic(topic))
    send_bodies(stack.endpoint, other, ["1", "2"])
    with pytest.raises(NotFound):
        strict.latestOffset(start, ALL)
    for _ in range(2):
        following = lenient.latestOffset(start, ALL)
        assert ranges(lenient, start, following) == [(0, 2)]
    assert caplog.text.count(f"topic {topic} was deleted") == 1
    restarted = reader_of(stack, names)
    assert ranges(restarted, start, end) == []
    restarted.prepareForTriggerAvailableNow()
    assert restarted.latestOffset(start, ALL) == following
    stack.create_topic(topic, queues=1)
    send_bodies(stack.endpoint, topic, ["again"])
    last = lenient.latestOffset(following, ALL)
    assert [stop - begin for begin, stop in ranges(lenient, following, last)] == [1]
    with pytest.raises(NotFound):
        reader_of(stack, f"{names},no-such-topic").initialOffset()
    for reader in (lenient, strict, restarted):
        reader.stop()


def test_a_topic_that_is_deleted_while_a_query_reads_what_there_was_ends_nothing(stack: Stack, topic: str) -> None:
    reader = reader_of(stack, topic)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    with AdminClient(stack.endpoint) as admin:
        admin.send_call(topic_calls.delete_topic(topic))
    assert reader.latestOffset(start, ALL) == start
    reader.stop()


def test_the_drivers_of_a_group_are_known_to_each_other(stack: Stack, topic: str) -> None:
    group = stack.fresh_name()
    with OffsetReader(stack.endpoint, kind="spark") as one, OffsetReader(stack.endpoint, kind="spark") as other:
        assert one.members(group) == []
        for reader in (one, other):
            reader.commit(group, [(one.queues(topic)[0], 1)])
            reader.join(group)
        assert sorted(one.members(group)) == sorted([one.client_id, other.client_id])


# --- pure


def test_losses_are_told_apart_as_far_as_is_known() -> None:
    found = [LostRange("t", f"b/{number}", 10, 40) for number in range(4)]
    known = explain_ranges(found, {"t": {"b/0": 0, "b/1": 40, "b/2": 15}})
    assert describe_lost(known) == (
        "120 messages were lost before this query read them: "
        "topic t, queue b/0: 30 from offset 10 on (retention); topic t, queue b/1: 30 from offset 10 on (purged); "
        "topic t, queue b/2: 30 from offset 10 on (5 purged, the others by retention); "
        "topic t, queue b/3: 30 from offset 10 on (retention or a purge)"
    )
    assert explain_ranges(found, {}) == found


def test_a_line_has_an_end() -> None:
    many = [LostRange("t", f"b/{number}", 0, 10) for number in range(100)]
    assert describe_lost(many).endswith("80 other queues: 800")


def test_a_range_counts_once() -> None:
    ledger = LossLedger()
    for first, messages in ((10, 5), (10, 0), (12, 2)):
        lost = ledger.find_lost({"t": {"b/0": 5}}, {"t": {"b/0": first}})
        assert sum(each.messages for each in lost) == messages
        ledger.count_lost(lost)
    assert ledger.of_batch == {"t": {"b/0": 7}}


def test_lines_have_time_level_and_logger_where_nobody_configured_logging(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("pyspark_ternmq")
    monkeypatch.setattr(logger, "handlers", [])
    log_as_spark()
    assert logger.handlers == [], "who has handlers keeps them"
    monkeypatch.setattr(logger, "propagate", False)
    for _ in range(2):
        log_as_spark()
    logging.getLogger("pyspark_ternmq.source.stream").warning("17 messages were lost")
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(" WARNING pyspark_ternmq.source.stream: 17 messages were lost")
