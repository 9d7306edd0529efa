"""`ternmq registry rebuild`: what a store says of a registry that was lost, and what the command does with it."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ternmq_broker.delivery.claims import ClaimsSnapshot
from ternmq_broker.store.disk.files import DiskFolders
from ternmq_broker.store.disk.store_lock import StoreLock
from ternmq_broker.store.journal.progress_journal import ProgressJournal
from ternmq_broker.store.log.record import RecordKind
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store.record_drafts import RecordDraft
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.names import lite_queue_topic
from ternmq_common.resources.quotas import Quota, QuotaKind
from ternmq_common.shard.model import RETRY_QUEUE_ID, ConsumerGroup, NewMessage, Topic
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_registry.registry import Registry
from ternmq_registry.sql.schema import migrate_schema
from tests.support.postgres import Postgres
from tests.unit.command.conftest import Call

STORED_MS = 1_795_310_547_155
LEASE_MS = 60_000
PROGRESS = ClaimsSnapshot(1, 0, [])


def message(kind: "pb.MessageType" = pb.NORMAL) -> NewMessage:
    return NewMessage(0, pb.SystemProperties(message_type=kind).SerializeToString(), b"", ())


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A store with topics of all types, two deleted ones, and groups, and no registry."""
    folders = DiskFolders(tmp_path / "store")
    store = MessageStore(folders, segment_bytes=1 << 20)
    store.writer.append_batch("orders", 0, [message()] * 3, STORED_MS)
    store.writer.append_batch("orders", 4, [message()], STORED_MS)
    store.writer.append_batch("chat", 1, [message(pb.FIFO)] * 2, STORED_MS)
    store.writer.append_batch("all", 0, [message()], STORED_MS)
    store.writer.append_batch("all", 1, [message(pb.FIFO)], STORED_MS)
    store.writer.append_batch("alarms", 2, [message(pb.PRIORITY)], STORED_MS)
    store.writer.append_batch("again", 9, [message(pb.FIFO)], STORED_MS)
    store.writer.append_batch("gone", 0, [message()], STORED_MS)
    store.writer.append_drafts(
        [RecordDraft(RecordKind.TIMER, "gone", 0, message(pb.DELAY), due_ms=STORED_MS + 1)], STORED_MS
    )
    for topic in ("again", "gone"):
        store.deletions.forget_topic(topic)()
    store.writer.append_batch("again", 1, [message(pb.DELAY)], STORED_MS)
    store.writer.append_batch("%RETRY%shop", 0, [message()], STORED_MS)
    store.writer.append_batch("%DLQ%lost", 0, [message()], STORED_MS)
    store.writer.append_batch(lite_queue_topic("talks", "%a$"), 0, [message(pb.LITE)] * 3, STORED_MS)
    store.writer.append_batch(lite_queue_topic("talks", "b"), 0, [message(pb.LITE)], STORED_MS)
    store.writer.append_batch(lite_queue_topic("games", "b"), 0, [message(pb.LITE)], STORED_MS)
    store.writer.append_batch("TRANS_CHECK_MAX_TIME_TOPIC", 0, [message()], STORED_MS)
    store.writer.append_drafts(
        [
            RecordDraft(RecordKind.TIMER, "reminders", 3, message(pb.DELAY), due_ms=STORED_MS + 1),
            RecordDraft(RecordKind.HALF_MESSAGE, "payments", 1, message(pb.TRANSACTION), sender="p"),
        ],
        STORED_MS,
    )
    store.close()
    journal = ProgressJournal(folders.consumption)
    keys = [("talk", "chat", 1), ("both", "chat", 1), ("both", "orders", 0), ("retry", "chat", RETRY_QUEUE_ID)]
    keys += [("agents", lite_queue_topic("talks", name), 0) for name in ("%a$", "b", "no messages left")]
    keys += [("agents", lite_queue_topic("games", "b"), 0), ("players", lite_queue_topic("games", "b"), 0)]
    keys += [("agents", "orders", RETRY_QUEUE_ID)]
    journal.write_progress([(key, PROGRESS) for key in keys], STORED_MS)
    journal.close()
    return tmp_path


ALL_TOPICS = {
    "again": ("delay", 2),
    "alarms": ("priority", 3),
    "all": ("mixed", 2),
    "chat": ("fifo", 2),
    "games": ("lite", 1),
    "orders": ("normal", 5),
    "payments": ("transaction", 2),
    "reminders": ("delay", 4),
    "talks": ("lite", 1),
}
ALL_GROUPS = {
    "agents": False,
    "both": False,
    "lost": False,
    "players": False,
    "retry": False,
    "shop": False,
    "talk": True,
}
ALL_BOUND = {"agents": "talks", "players": "games"}


def known(data_dir: Path) -> tuple[dict[str, Topic], dict[str, ConsumerGroup]]:
    registry = Registry.open_sqlite(data_dir / "registry.db")
    try:
        snapshot = registry.read_snapshot()
    finally:
        registry.close()
    return dict(snapshot.topics), dict(snapshot.groups)


def kinds(topics: dict[str, Topic]) -> dict[str, tuple[str, int]]:
    return {name: (topic.type_name.lower(), topic.queues) for name, topic in topics.items()}


def bound(groups: dict[str, ConsumerGroup]) -> dict[str, str]:
    return {name: group.lite.bind for name, group in groups.items() if group.lite is not None}


def test_a_registry_that_is_gone_is_made_of_the_store(call: Call, data_dir: Path) -> None:
    done = call("registry", "rebuild", "--yes", "--data-dir", str(data_dir), "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    topics, groups = known(data_dir)
    assert kinds(topics) == ALL_TOPICS
    assert {name: group.fifo for name, group in groups.items()} == ALL_GROUPS
    assert bound(groups) == ALL_BOUND
    assert (topics["orders"].created_ms, topics["talks"].created_ms) == (STORED_MS, STORED_MS)
    assert [record["name"] for record in told["made"]] == [*ALL_TOPICS, *ALL_GROUPS]
    orders = {"kind": "topic", "name": "orders", "type": "normal", "queues": 5, "messages": 4, "waiting": 0}
    assert told["made"][5] == {**orders, "source": "store"}
    talks = {"kind": "topic", "name": "talks", "type": "lite", "queues": 1, "messages": 4, "waiting": 0}
    assert {**talks, "source": "store"} in told["made"]
    assert [record["name"] for record in told["made"][9:] if record["type"] == "lite"] == [*ALL_BOUND]
    assert (told["dry_run"], told["damage"], told["set_aside"], told["unreadable"]) == (False, None, None, [])


def test_people_see_a_table_and_what_was_guessed(call: Call, data_dir: Path) -> None:
    done = call("registry", "rebuild", "--yes", "--data-dir", str(data_dir))
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["KIND", "NAME", "TYPE", "QUEUES", "MESSAGES", "WAITING", "SOURCE"]
    assert ["topic", "reminders", "delay", "4", "0", "1", "store"] in [line.split() for line in lines]
    assert "derived from the store" in done.stderr
    assert "9 topics and 7 groups rebuilt" in done.stderr
    again = call("registry", "rebuild", "--yes", "--data-dir", str(data_dir))
    assert (again.exit_code, again.stdout) == (0, "")
    assert again.stderr == "the registry has all topics and groups of the store\n"


def content_of(data_dir: Path) -> dict[Path, bytes]:
    """Every file but those that say who has the store."""
    files = (path for path in data_dir.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path.name != "process" and path.parent.name != "lock"}


def test_a_dry_run_changes_nothing(call: Call, data_dir: Path) -> None:
    before = content_of(data_dir)
    done = call("registry", "rebuild", "--data-dir", str(data_dir), "--dry-run")
    assert done.exit_code == 0
    assert "9 topics and 7 groups would be rebuilt" in done.stderr
    assert content_of(data_dir) == before


def test_without_a_terminal_yes_is_needed(call: Call, data_dir: Path) -> None:
    unasked = call("registry", "rebuild", "--data-dir", str(data_dir))
    assert (unasked.exit_code, "--yes" in unasked.stderr) == (2, True)
    assert not (data_dir / "registry.db").exists()


@pytest.mark.usefixtures("terminal")
def test_a_person_is_asked(call: Call, data_dir: Path) -> None:
    refused = call("registry", "rebuild", "--data-dir", str(data_dir), stdin="n\n")
    assert refused.exit_code != 0
    assert not (data_dir / "registry.db").exists()
    assert call("registry", "rebuild", "--data-dir", str(data_dir), "--yes").exit_code == 0
    assert kinds(known(data_dir)[0]) == ALL_TOPICS


def test_what_the_registry_knows_stays_and_gets_the_queues_that_it_lacks(call: Call, data_dir: Path) -> None:
    registry = Registry.open_sqlite(data_dir / "registry.db")
    chat, _ = registry.create_topic(Topic(name="chat", type=MessageType.NORMAL, queues=16))
    orders, _ = registry.create_topic(Topic(name="orders", type=MessageType.DELAY, queues=2, created_ms=7))
    empty, _ = registry.create_topic(Topic(name="empty", type=MessageType.NORMAL))
    games, _ = registry.create_topic(Topic(name="games", type=MessageType.LITE, queues=3, lite_ttl_ms=900_000))
    talks, _ = registry.create_topic(Topic(name="talks", type=MessageType.NORMAL))
    talk, _ = registry.create_group(ConsumerGroup(name="talk", max_attempts=3))
    registry.close()
    told = json.loads(call("registry", "rebuild", "--yes", "--data-dir", str(data_dir), "--json").stdout)
    assert {"chat", "empty", "games", "talk", "talks"}.isdisjoint(record["name"] for record in told["made"])
    topics, groups = known(data_dir)
    assert (topics["chat"], topics["empty"], groups["talk"]) == (chat, empty, talk)
    assert (topics["games"], topics["talks"]) == (games, talks)
    assert bound(groups) == {"players": "games"}, "no lite group is bound to a topic that is none now"
    assert kinds(topics)["orders"] == ("delay", 5)
    assert topics["orders"].created_ms == orders.created_ms


def test_of_a_damaged_registry_is_taken_what_can_be_trusted(call: Call, data_dir: Path) -> None:
    registry = Registry.open_sqlite(data_dir / "registry.db")
    for name in ("orders", "empty"):
        registry.create_topic(Topic(name=name, type=MessageType.NORMAL, queues=16))
    registry.create_group(ConsumerGroup(name="talk", max_attempts=3))
    registry.put_quota(Quota(kind=QuotaKind.TOPIC, name="*", messages_in=5))
    registry.put_value("tools", "owner", "ops")
    registry.close()
    database = sqlite3.connect(data_dir / "registry.db")
    database.execute("UPDATE topics SET queues = 17 WHERE name = 'orders'")
    database.commit()
    database.close()
    told = json.loads(call("registry", "rebuild", "--yes", "--data-dir", str(data_dir), "--json").stdout)
    topics, groups = known(data_dir)
    assert kinds(topics) == ALL_TOPICS | {"empty": ("normal", 16)}
    assert groups["talk"].max_attempts == 3
    assert told["unreadable"] == ["topics 'orders'"]
    assert told["damage"] == "row 'orders' of table topics has a wrong checksum"
    assert told["set_aside"] == str(data_dir / "registry.db.damaged-1")
    sources = {record["name"]: record["source"] for record in told["made"]}
    assert (sources["empty"], sources["talk"], sources["orders"]) == ("registry", "registry", "store")
    assert (sources["topic:*"], sources["tools:owner"]) == ("registry", "registry")
    with closing(Registry.open_sqlite(data_dir / "registry.db")) as rebuilt:
        assert rebuilt.read_values("tools") == {"owner": "ops"}


def test_while_a_server_runs_nothing_is_done(call: Call, data_dir: Path) -> None:
    with StoreLock(data_dir / "store"):
        done = call("registry", "rebuild", "--yes", "--data-dir", str(data_dir))
    assert done.exit_code == 1
    assert "is in use by another stack" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (data_dir / "registry.db").exists()


def test_where_no_store_is_nothing_is_made(call: Call, tmp_path: Path) -> None:
    done = call("registry", "rebuild", "--yes", "--data-dir", str(tmp_path))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"ternmq: there is no store in {tmp_path}; ")
    assert list(tmp_path.iterdir()) == []


# --- a cluster


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    name = postgres.new_database()
    made = postgres.url_of(name)
    migrate_schema(made)
    yield made
    postgres.drop_database(name)


def rebuilt(call: Call, data_dir: Path, url: str, broker: str = "b1") -> list[str]:
    """The names of what was made."""
    options = ("--data-dir", str(data_dir), "--registry", url, "--broker-name", broker)
    done = call("registry", "rebuild", "--yes", *options, "--json")
    assert done.exit_code == 0, done.stderr
    return [record["name"] for record in json.loads(done.stdout)["made"]]


def test_a_clusters_registry_gets_what_each_broker_has(call: Call, data_dir: Path, url: str) -> None:
    registry = Registry.open_postgres(url)
    for broker in ("b1", "b2"):
        registry.register_broker(broker, f"store of {broker}", "host:1", "1.0", LEASE_MS)
    assert rebuilt(call, data_dir, url) == [*ALL_TOPICS, *ALL_GROUPS]
    assert rebuilt(call, data_dir, url, "b2") == [*ALL_TOPICS]  # as if it had the same topics
    snapshot = registry.read_snapshot()
    assert kinds(dict(snapshot.topics)) == ALL_TOPICS
    assert {topic.brokers for topic in snapshot.topics.values()} == {("b1", "b2")}
    assert rebuilt(call, data_dir, url) == []
    registry.close()


def test_what_was_deleted_while_the_broker_was_away_is_not_made_again(call: Call, data_dir: Path, url: str) -> None:
    registry = Registry.open_postgres(url)
    registry.register_broker("b1", "store", "host:1", "1.0", LEASE_MS)
    registry.create_topic(Topic(name="orders", type=MessageType.NORMAL, brokers=("b1",)))
    registry.create_group(ConsumerGroup(name="talk"))
    registry.delete_topic("orders")
    registry.delete_group("talk")
    assert {"orders", "talk"}.isdisjoint(rebuilt(call, data_dir, url))
    assert "orders" not in registry.read_snapshot().topics
    registry.close()


def test_a_clusters_failures_are_one_line(call: Call, data_dir: Path, url: str) -> None:
    options = ("registry", "rebuild", "--yes", "--data-dir", str(data_dir))
    unknown = call(*options, "--registry", url, "--broker-name", "b9")
    assert (unknown.exit_code, len(unknown.stderr.splitlines())) == (1, 1)
    assert "the registry has no broker 'b9'" in unknown.stderr
    away = call(*options, "--registry", "postgresql://ternmq@127.0.0.1:1/ternmq")
    assert (away.exit_code, len(away.stderr.splitlines())) == (3, 1)
    (data_dir / "store-id").touch()
    unnamed = call(*options)
    assert unnamed.exit_code == 2
    assert "of a cluster: name the database with --registry" in unnamed.stderr
