"""A stream of a server that is no TernMQ, and what its reader decides without one."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from pyspark_ternmq.schema import SCHEMA
from pyspark_ternmq.source.offsets.loss import DataLoss
from pyspark_ternmq.source.offsets.position import Kept
from pyspark_ternmq.source.offsets.splitting import RangePartition
from pyspark_ternmq.source.stream import TopicStreamReader
from ternmq import MessageQueue
from ternmq.pull.offset_reader import OffsetReader
from tests.unit.client.scripted_server import TOPIC, ScriptedServer

ResultT = TypeVar("ResultT")
QUEUE = MessageQueue(TOPIC, "broker-a", 1)
NAMES = [f"broker-a/{number}" for number in range(4)]


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as running:
        yield running


async def used(server: ScriptedServer, use: Callable[[TopicStreamReader], ResultT], **options: str) -> ResultT:
    """What comes of using a reader in a thread of its own."""
    given = {"endpoint": server.endpoint, "subscribe": TOPIC, "startingOffsets": "earliest", **options}

    def work() -> ResultT:
        reader = TopicStreamReader(given, SCHEMA)
        try:
            return use(reader)
        finally:
            reader.stop()

    return await asyncio.to_thread(work)


async def test_a_server_without_identities_has_none_in_the_checkpoint(server: ScriptedServer) -> None:
    server.model.append(QUEUE, b"0", b"1")

    def reading(reader: TopicStreamReader) -> None:
        start = reader.initialOffset()
        assert start == {TOPIC: dict.fromkeys(NAMES, 0)}
        end = reader.latestOffset(start, ReadAllAvailable())
        assert end == {TOPIC: {**start[TOPIC], "broker-a/1": 2}}
        [one] = reader.partitions(start, end)
        assert isinstance(one, RangePartition)
        assert (one.wanted.start, one.wanted.stop) == (0, 2)
        # One with identities, of a TernMQ that was there before, keeps them.
        told = {**end, "@identities": {TOPIC: "a-1"}}
        assert reader.latestOffset(told, ReadAllAvailable()) == told

    await used(server, reading)


async def test_a_micro_batch_waits_for_more(server: ScriptedServer) -> None:
    def reading(reader: TopicStreamReader) -> list[int]:
        limit = reader.getDefaultReadLimit()
        assert limit == ReadMaxRows(4)
        at = reader.initialOffset()
        sizes = []
        for count in (1, 2, 3, 9):
            server.model.append(QUEUE, *[b"-"] * count)
            end = reader.latestOffset(at, limit)
            sizes.append(end[TOPIC]["broker-a/1"] - at[TOPIC]["broker-a/1"])
            at = end
        reported = reader.reportLatestOffset()
        assert reported is not None
        assert reported[TOPIC] == {**at[TOPIC], "broker-a/1": 15}
        assert reported["@metrics"] == {
            "minOffsetsBehindLatest": 0,
            "maxOffsetsBehindLatest": 6,
            "avgOffsetsBehindLatest": 1.5,
            "lostMessages": 0,
        }
        assert reported["@source"] == f"topic {TOPIC}"
        return sizes

    # The first trigger takes all; then 2, 2 + 3 and 1 + 9.
    assert await used(server, reading, minOffsetsPerTrigger="4", maxOffsetsPerTrigger="4") == [1, 0, 4, 4]


async def test_the_end_of_a_query_waits_for_nothing(server: ScriptedServer) -> None:
    """Trigger.AvailableNow takes all that was there, in parts, and Trigger.Once all there is, at once."""

    def reading(reader: TopicStreamReader) -> list[int]:
        limit = reader.getDefaultReadLimit()
        assert limit == ReadMinRows(100)
        at = reader.initialOffset()
        ends = []
        server.model.append(QUEUE, b"0")
        ends.append(reader.latestOffset(at, limit))
        server.model.append(QUEUE, b"1")
        ends.append(reader.latestOffset(ends[-1], ReadAllAvailable()))
        server.model.append(QUEUE, b"2")
        assert reader.latestOffset(ends[-1], limit) == ends[-1]
        reader.prepareForTriggerAvailableNow()
        ends.append(reader.latestOffset(ends[-1], limit))
        return [end[TOPIC]["broker-a/1"] for end in ends]

    assert await used(server, reading, minOffsetsPerTrigger="100") == [1, 2, 3]


@pytest.mark.parametrize("place", ["latest", json.dumps({TOPIC: dict.fromkeys(NAMES, 0) | {"broker-a/1": -1}})])
async def test_the_first_micro_batch_of_a_query_that_begins_with_what_comes_next_has_no_rows(
    server: ScriptedServer, place: str
) -> None:
    """Spark notes its end only, and asks for the start again when it is repeated."""
    server.model.append(QUEUE, b"old")

    def first(reader: TopicStreamReader) -> dict[str, dict[str, int]]:
        start = reader.initialOffset()
        server.model.append(QUEUE, b"new")
        end = reader.latestOffset(start, ReadAllAvailable())
        assert end == start
        assert reader.initialOffset() == start
        assert reader.partitions(start, end) == []
        assert reader.latestOffset(end, ReadAllAvailable())[TOPIC]["broker-a/1"] == 2
        return end

    def repeated(reader: TopicStreamReader, end: dict[str, dict[str, int]]) -> None:
        start = reader.initialOffset()
        assert start[TOPIC]["broker-a/1"] == 2
        assert reader.partitions(start, end) == []

    end = await used(server, first, startingOffsets=place)
    await used(server, lambda reader: repeated(reader, end), startingOffsets=place)


@pytest.fixture
def identities(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The topics that servers tell of."""
    told = {TOPIC: "a-1"}
    monkeypatch.setattr(OffsetReader, "topics", lambda self, names=(): {**told})
    return told


def ranges(reader: TopicStreamReader, start: Kept, end: Kept) -> list[tuple[int, int]]:
    planned = [one for one in reader.partitions(start, end) if isinstance(one, RangePartition)]
    return sorted((one.wanted.start, one.wanted.stop) for one in planned)


async def test_a_topic_whose_offsets_began_anew_is_read_from_its_beginning_or_not_at_all(
    server: ScriptedServer, identities: dict[str, str]
) -> None:
    server.model.append(QUEUE, *[b"-"] * 30)
    start = {TOPIC: {**dict.fromkeys(NAMES, 0), "broker-a/1": 10}, "@identities": {TOPIC: "0-0"}}

    def strict(reader: TopicStreamReader) -> None:
        with pytest.raises(DataLoss, match=f"topic {TOPIC} was deleted and created again since this query read it"):
            reader.latestOffset(start, ReadAllAvailable())

    def lenient(reader: TopicStreamReader) -> Kept:
        end = reader.latestOffset(start, ReadMaxRows(20))
        assert end["@identities"] == {TOPIC: "a-1"}
        assert ranges(reader, start, end) == [(0, 20)]
        following = reader.latestOffset(end, ReadMaxRows(20))
        assert ranges(reader, end, following) == [(20, 30)]
        return end

    await used(server, strict)
    end = await used(server, lenient, failOnDataLoss="false")
    # Planned of that topic, and repeated after a restart when there is a third one of its name.
    identities[TOPIC] = "b-2"

    def strictly_repeated(reader: TopicStreamReader) -> None:
        with pytest.raises(DataLoss, match=r"since the micro-batch was planned that is to be repeated"):
            reader.partitions(start, end)

    def repeated(reader: TopicStreamReader) -> None:
        assert ranges(reader, start, end) == []
        last = reader.latestOffset(end, ReadAllAvailable())
        assert ranges(reader, end, last) == [(0, 30)]

    await used(server, strictly_repeated)
    await used(server, repeated, failOnDataLoss="false")
