"""The copy of the registry in a file: what it keeps, what is refused of it, and when it is written."""

import asyncio
import stat
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.access.actions import AccessAction
from ternmq_common.access.resources import AccessResource
from ternmq_common.access.users import AccessPolicy, AccessSnapshot
from ternmq_common.catalog.cluster import (
    BrokerEntry,
    BrokerLoad,
    QueuePermission,
    RegistrySnapshot,
    ReplicaEntry,
    ReplicationMode,
)
from ternmq_common.catalog.lite_group import LiteGroup
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.catalog.retry_backoff import parse_backoff
from ternmq_common.errors import StartupError
from ternmq_common.process.checked_form import decode_file_body, encode_file_body
from ternmq_common.resources.quotas import Quota, QuotaKind
from ternmq_common.shard.model import ConsumerGroup, Topic
from ternmq_registry import migrations
from ternmq_registry.copies import copy_form
from ternmq_registry.copies.copy_file import CopyFile
from ternmq_registry.copies.copy_form import RegistryCopy, UnusableCopy, decode_copy, encode_copy
from ternmq_registry.copies.copy_keeper import CopyKeeper, reduce_for_broker
from ternmq_registry.directory import RegistryDirectory
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.registry import Registry
from ternmq_registry.security.secret_encryption import SecretEncryption
from ternmq_registry.sql.database import registry_identity

REGISTRY, HOLDER = "db.example:5432/ternmq", "proxy"
SECRET = "a-secret-of-alice"
KEY = bytes(range(32))
BROKERS = {
    "b": BrokerEntry(
        name="b",
        address="10.0.0.1:10911",
        epoch=7,
        permission=QueuePermission.READ,
        draining=True,
        live=False,
        version="1.2",
        started_ms=5,
        load=BrokerLoad(messages_in=3.5),
        store_id="s" * 32,
        replicas=(ReplicaEntry(name="r", store_id="t" * 32, address="h:1", in_sync=True, live=True, position=9),),
        replicas_wanted=3,
        min_insync=2,
        replication=ReplicationMode.ASYNC,
        move_to="u",
    )
}
COPY = RegistryCopy(
    registry=REGISTRY,
    holder=HOLDER,
    read_ms=1_000,
    synced_up_to=6,
    snapshot=RegistrySnapshot(version=8, topics={"t": Topic(name="t", type=MessageType.FIFO)}, brokers=BROKERS),
)
DATA = encode_copy(COPY)


def read_back(data: bytes, secret_encryption: SecretEncryption | None = None) -> RegistryCopy:
    return decode_copy("registry-copy", data, registry=REGISTRY, holder=HOLDER, secret_encryption=secret_encryption)


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    """One that has something of everything."""
    made = Registry.open_sqlite(tmp_path / "registry.db", SecretEncryption([KEY]))
    made.create_topic(Topic(name="t", type=MessageType.DELAY, queues=3, created_ms=4, permission=QueuePermission.READ))
    made.create_topic(Topic(name="async", type=MessageType.NORMAL, replication=ReplicationMode.ASYNC))
    made.create_group(
        ConsumerGroup(name="g", fifo=True, max_attempts=3, retry_backoff=parse_backoff("customized:1s,2s"))
    )
    made.create_topic(Topic(name="chats", type=MessageType.LITE, lite_ttl_ms=900_000))
    made.create_group(ConsumerGroup(name="agents", lite=LiteGroup("chats", quota=7, resets_when_taken=True)))
    made.create_group(ConsumerGroup(name="plain"))
    made.create_user("alice", SECRET, is_super=True, now_ms=3)
    policy = AccessPolicy(
        AccessResource.parse_resource("Topic:t"),
        AccessAction.parse_actions("Pub"),
        allows=False,
        sources=(ip_network("10.0.0.0/8"),),
    )
    made.put_policy("alice", policy)
    made.put_quota(Quota(kind=QuotaKind.TOPIC, name="t", messages_in=5, in_flight=2))
    return made


def test_a_copy_says_all_that_the_registry_has(registry: Registry) -> None:
    snapshot = registry.read_snapshot()
    data = encode_copy(replace(COPY, snapshot=replace(snapshot, brokers=BROKERS)))
    found = read_back(data, SecretEncryption([KEY])).snapshot
    assert found.brokers == {"b": replace(BROKERS["b"], load=BrokerLoad())}
    assert replace(found, brokers=snapshot.brokers) == snapshot
    assert snapshot.handle_keys
    assert found.access.users["alice"].secrets[0].text == SECRET
    assert found.access.sealed == snapshot.access.sealed
    registry.close()


def test_a_secret_is_as_sealed_as_in_the_registry_and_nobodys_without_the_key(registry: Registry) -> None:
    data = encode_copy(replace(COPY, snapshot=registry.read_snapshot()))
    assert SECRET.encode() not in data
    for secret_encryption in (None, SecretEncryption([bytes(32)])):
        assert read_back(data, secret_encryption).snapshot.access.users["alice"].secrets == ()
    registry.close()


def test_what_is_deleted_or_changed_of_users_is_so_in_the_next_copy(registry: Registry) -> None:
    registry.create_user("bob", SECRET, is_super=False, now_ms=3)
    known = registry.read_snapshot()
    assert known.access.sealed.keys() == {"alice", "bob"}
    registry.delete_user("bob")
    registry.update_user("alice", is_super=True, is_enabled=True)
    known = registry.read_snapshot(known)
    assert known.access.sealed.keys() == {"alice"}
    registry.put_policy(
        "alice", AccessPolicy(AccessResource.parse_resource("Topic:u"), AccessAction.parse_actions("Sub"))
    )
    assert registry.read_snapshot(known).access.sealed["alice"] != known.access.sealed["alice"]
    registry.close()


def test_a_broker_keeps_nothing_of_users_keys_and_quotas(registry: Registry) -> None:
    snapshot = registry.read_snapshot()
    kept = reduce_for_broker(snapshot)
    assert (kept.topics, kept.groups, kept.version) == (snapshot.topics, snapshot.groups, snapshot.version)
    assert (kept.access, kept.handle_keys, kept.quotas.quotas) == (AccessSnapshot(), (), {})
    without_secret_encryption = Registry(registry._database._engine)
    assert without_secret_encryption.read_snapshot().access.sealed == {}
    registry.close()


@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_a_byte_that_is_another_one_is_noticed(place: int, flip: int) -> None:
    data = bytearray(DATA)
    data[place] ^= flip
    with pytest.raises(UnusableCopy):
        read_back(bytes(data))


@given(st.integers(0, len(DATA) - 1), st.binary(min_size=1, max_size=8))
def test_a_copy_that_is_cut_off_or_longer_is_noticed(end: int, more: bytes) -> None:
    for data in (DATA[:end], DATA + more):
        with pytest.raises(UnusableCopy):
            read_back(data)


@given(st.binary(max_size=200))
def test_whatever_a_file_has_is_a_copy_or_refused(body: bytes) -> None:
    for data in (body, encode_file_body(copy_form.WHAT, copy_form.FORMAT, body)):
        with pytest.raises(UnusableCopy):
            read_back(data)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda text: text.replace(b'"type":"FIFO"', b'"type":"KAFKA"'), "makes no sense"),
        (lambda text: text.replace(b'"queues":8', b'"queues":[8]'), "makes no sense"),
        (lambda text: text.replace(b'"epoch":7', b'"epoch":"7"'), "makes no sense"),
        (lambda text: text.replace(b'"read_ms"', b'"read"'), "makes no sense"),
        (lambda text: text.replace(migrations.NEWEST.encode(), b"0011"), "it is of the schema '0011'"),
        (lambda text: text.replace(b"db.example", b"db2.example"), "it is of the registry 'db2.example:5432/ternmq'"),
        (lambda text: text.replace(b'"holder":"proxy"', b'"holder":"broker b"'), "it was written by 'broker b'"),
    ],
)
def test_what_is_whole_and_of_somebody_else_is_refused(spoil: "object", told: str) -> None:
    assert callable(spoil)
    body = decode_file_body("x", copy_form.WHAT, copy_form.FORMAT, DATA)
    spoilt = spoil(body)
    assert spoilt != body
    with pytest.raises(UnusableCopy, match=told):
        read_back(encode_file_body(copy_form.WHAT, copy_form.FORMAT, spoilt))


def test_a_copy_of_a_newer_format_or_of_another_kind_is_refused() -> None:
    body = decode_file_body("x", copy_form.WHAT, copy_form.FORMAT, DATA)
    for data, told in (
        (encode_file_body(copy_form.WHAT, copy_form.FORMAT + 1, body), "has layout 2"),
        (encode_file_body("store-id", copy_form.FORMAT, body), "it is a store-id"),
    ):
        with pytest.raises(UnusableCopy, match=told):
            read_back(data)


# --- the file


def file_in(folder: Path, *, age_max_ms: int = 0) -> CopyFile:
    return CopyFile(path=folder / "made" / "registry-copy", registry=REGISTRY, holder=HOLDER, age_max_ms=age_max_ms)


def test_a_file_is_replaced_as_a_whole_and_for_its_owner(tmp_path: Path) -> None:
    file = file_in(tmp_path)
    assert file.read(2_000) is None
    file.write(COPY)
    file.write(replace(COPY, read_ms=1_500))
    found = file.read(2_000)
    assert found is not None
    assert (found.read_ms, found.synced_up_to, found.snapshot.topics) == (1_500, 6, COPY.snapshot.topics)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert [each.name for each in file.path.parent.iterdir()] == ["registry-copy"]


def test_a_copy_that_is_too_old_or_too_large_is_not_used(tmp_path: Path) -> None:
    file = file_in(tmp_path, age_max_ms=10_000)
    file.write(COPY)
    assert file.read(11_000) is not None
    assert file.read(500) is not None  # the clock was set back
    with pytest.raises(UnusableCopy, match="it is 10 s old, and 10 s are allowed"):
        file.read(11_001)
    file = replace(file, bytes_max=len(DATA) - 1)
    with pytest.raises(UnusableCopy, match=f"has more than {len(DATA) - 1} bytes"):
        file.read(11_000)
    with pytest.raises(UnusableCopy, match=f"would have {len(DATA)} bytes"):
        file.write(COPY)
    assert not file.path.exists()  # it would say less and less


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    file = file_in(tmp_path)
    file.write(COPY)
    left = [file.path.with_name(f"registry-copy.{number}-3") for number in (2**22 + 5, 1)]
    others = [file.path.with_name(name) for name in ("registry-copy.worker-1", "registry-copy.x-1", "note")]
    for path in (*left, *others):
        path.touch()
    file.clear()
    assert [path.exists() for path in left] == [False, True]  # process 1 is there
    assert all(path.exists() for path in (*others, file.path))


@pytest.mark.parametrize(
    ("url", "identity"),
    [
        ("postgresql://ternmq:secret@db.example/ternmq", "db.example:5432/ternmq"),
        ("postgres://somebody@db.example:5433/x?sslmode=verify-full", "db.example:5433/x"),
        ("postgresql:///x?host=a&host=b&port=1&port=2&password=secret", "a,b:1,2/x"),
        ("postgresql://ternmq@db.example", "db.example:5432/ternmq"),
    ],
)
def test_an_identity_names_the_database_and_nobodys_password(url: str, identity: str) -> None:
    assert registry_identity(url) == identity


# --- a directory that begins with it, and the keeper


class Away(Registry):
    """A registry that is away, or has another schema, as the test says."""

    error: Exception | None = RegistryUnavailable("the cable is cut")

    def check_schema(self) -> None:
        if self.error is not None:
            raise self.error


def away(tmp_path: Path) -> Away:
    registry = Away.open_sqlite(tmp_path / "registry.db")
    registry.create_group(ConsumerGroup(name="new"))
    return registry


async def test_a_directory_begins_with_a_copy_and_goes_on_with_the_registry(tmp_path: Path) -> None:
    registry = away(tmp_path)
    directory = RegistryDirectory(registry, interval_s=None)
    directory.start_from_copy(COPY.snapshot, COPY.read_ms, RegistryUnavailable("it is dark"))
    assert directory.snapshot is COPY.snapshot
    assert directory.problem == "it is dark"
    assert directory.copy_age_s is not None
    assert directory.copy_age_s > 1e6
    waiting = asyncio.create_task(directory.wait_until_reached())
    with pytest.raises(RegistryUnavailable, match="the cable is cut"):
        await directory.refresh_snapshot()
    assert (directory.snapshot.version, waiting.done()) == (8, False)
    registry.error = None
    await directory.refresh_snapshot()
    await waiting
    assert [directory.problem, directory.copy_age_s] == [None, None]
    assert directory.snapshot.groups.keys() == {"new"}
    registry.close()


async def test_a_registry_of_another_schema_is_refused_when_it_is_back(tmp_path: Path) -> None:
    registry = away(tmp_path)
    registry.error = StartupError("its schema 0013 is of a newer TernMQ")
    directory = RegistryDirectory(registry, interval_s=None)
    directory.start_from_copy(COPY.snapshot, COPY.read_ms, RegistryUnavailable("it is dark"))
    with pytest.raises(RegistryUnavailable, match="0013"):
        await directory.refresh_snapshot()
    with pytest.raises(StartupError, match="0013"):
        await directory.wait_until_reached()
    assert directory.snapshot is COPY.snapshot
    registry.close()


async def written(file: CopyFile, group: str) -> RegistryCopy:
    """The copy as soon as it has the group."""
    async with asyncio.timeout(20):
        while True:
            copy = await asyncio.to_thread(file.read, 0)
            if copy is not None and group in copy.snapshot.groups:
                return copy
            await asyncio.sleep(0.005)  # no event tells of a file


async def test_a_keeper_writes_what_changes_and_the_last_at_its_end(tmp_path: Path) -> None:
    registry = Registry.open_sqlite(tmp_path / "registry.db")
    file = file_in(tmp_path)
    directory = RegistryDirectory(registry, interval_s=None)
    await directory.start()
    synced = 1
    keeper = CopyKeeper(directory, file, synced_up_to=lambda: synced, stamp_s=60, pause_s=0)
    keeper.start()
    for name in ("first", "second"):
        registry.create_group(ConsumerGroup(name=name))
        await directory.refresh_snapshot()
        copy = await written(file, name)
        assert (copy.registry, copy.holder, copy.synced_up_to) == (REGISTRY, HOLDER, 1)
        assert copy.read_ms == directory.read_ms
    synced = 2
    registry.create_group(ConsumerGroup(name="last"))
    await directory.refresh_snapshot()
    await keeper.stop()
    assert (await written(file, "last")).synced_up_to == 2
    registry.close()


async def test_the_age_is_told_although_nothing_changes(tmp_path: Path) -> None:
    registry = Registry.open_sqlite(tmp_path / "registry.db")
    registry.create_group(ConsumerGroup(name="g"))
    file = file_in(tmp_path)
    directory = RegistryDirectory(registry, interval_s=None)
    await directory.start()
    keeper = CopyKeeper(directory, file, stamp_s=0.001, pause_s=0)
    keeper.start()
    before = (await written(file, "g")).read_ms
    async with asyncio.timeout(20):
        while (await written(file, "g")).read_ms == before:
            await directory.refresh_snapshot()
    await keeper.stop()
    registry.close()


async def test_a_copy_that_cannot_be_written_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry.open_sqlite(tmp_path / "registry.db")
    (tmp_path / "made").touch()  # where a folder should be
    directory = RegistryDirectory(registry, interval_s=None)
    await directory.start()
    keeper = CopyKeeper(directory, file_in(tmp_path))
    for number in range(3):
        registry.create_group(ConsumerGroup(name=f"g{number}"))
        await directory.refresh_snapshot()
        await keeper._write_copy()
    assert [record.levelname for record in caplog.records if "can't be written" in record.message] == ["WARNING"]
    registry.close()
