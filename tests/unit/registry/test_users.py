"""Users in the registry, on both databases: what comes back is what went in, secrets only for who has the key."""

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ternmq_common.access.actions import ALL_ACTIONS, AccessAction
from ternmq_common.access.resources import AccessResource
from ternmq_common.access.users import POLICIES_MAX, AccessPolicy, parse_ranges
from ternmq_common.errors import MessagingError, StartupError
from ternmq_common.server_settings import ProxySettings, ServerSettings
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_registry.copies.salvage import replace_damaged, salvage_registry
from ternmq_registry.registry import Registry
from ternmq_registry.security import users
from ternmq_registry.security.init_user import INIT_SECRET_FILE, create_init_user
from ternmq_registry.security.secret_encryption import SecretEncryption
from ternmq_registry.security.user_rows import StoredUser, stored_user

KEY, OTHER = bytes(32), bytes(range(32))
SECRET, SECOND, THIRD = "correct-horse-1", "correct-horse-2", "correct-horse-3"
ON_ORDERS = AccessPolicy(
    AccessResource.parse_resource("Topic:orders-*"),
    AccessAction.parse_actions("Pub,Sub"),
    sources=parse_ranges("10.0.0.0/8,::1"),
)

Open = Callable[..., Registry]


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the test's registry with these keys, as often as it is called."""
    url: str | None = request.getfixturevalue("url") if request.param == "postgres" else None
    made: list[Registry] = []

    def another(*keys: bytes) -> Registry:
        secret_encryption = SecretEncryption(keys)
        path = tmp_path / "registry.db"
        made.append(
            Registry.open_sqlite(path, secret_encryption)
            if url is None
            else Registry.open_postgres(url, secret_encryption)
        )
        return made[-1]

    yield another
    for registry in made:
        registry.close()


@contextmanager
def refused(code: int, text: str) -> Iterator[None]:
    with pytest.raises(MessagingError, match=text) as caught:
        yield
    assert caught.value.code == code


def secrets_of(registry: Registry, name: str) -> list[tuple[str, int | None]]:
    return [(each.text, each.valid_until_ms) for each in registry.read_snapshot().access.users[name].secrets]


def test_a_user_comes_back_as_it_was_made(opened: Open) -> None:
    registry = opened(KEY)
    made = registry.create_user("alice", SECRET, is_super=False, now_ms=17)
    found = opened(KEY).read_snapshot().access.users
    assert found == {"alice": made}
    assert (made.is_super, made.is_enabled, made.created_ms, made.policies) == (False, True, 17, ())
    assert secrets_of(registry, "alice") == [(SECRET, None)]
    with refused(pb.BAD_REQUEST, "'alice' exists"):
        registry.create_user("alice", SECOND, is_super=True, now_ms=18)
    assert opened(KEY).read_snapshot().access.users == found


def test_only_what_changed_is_read_and_nothing_changed_is_the_same_object(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = opened(KEY)
    for name in ("alice", "bob"):
        registry.create_user(name, SECRET, is_super=False, now_ms=17)
    first = registry.read_snapshot()
    registry.delete_group("nobody")
    assert registry.read_snapshot(first).access is first.access
    read: list[str] = []

    def noted(row: Mapping[str, object]) -> StoredUser:
        read.append(str(row["name"]))
        return stored_user(row)

    monkeypatch.setattr(users, "stored_user", noted)
    registry.update_user("bob", is_enabled=False)
    read.clear()
    second = registry.read_snapshot(first)
    assert read == ["bob"]
    assert second.access.users["alice"] is first.access.users["alice"]
    assert not second.access.users["bob"].is_enabled
    registry.delete_user("alice")
    registry.create_user("carol", SECRET, is_super=False, now_ms=17)
    assert set(registry.read_snapshot(second).access.users) == {"bob", "carol"}


def test_a_rotated_secret_overlaps_with_the_one_before_and_no_other(opened: Open) -> None:
    registry = opened(KEY)
    registry.create_user("alice", SECRET, is_super=False, now_ms=1000)
    registry.rotate_secret("alice", SECOND, now_ms=1000, overlap_ms=500)
    assert secrets_of(registry, "alice") == [(SECOND, None), (SECRET, 1500)]
    registry.rotate_secret("alice", THIRD, now_ms=1100, overlap_ms=500)
    assert secrets_of(registry, "alice") == [(THIRD, None), (SECOND, 1600)]
    registry.rotate_secret("alice", SECRET, now_ms=1200, overlap_ms=0)
    assert secrets_of(registry, "alice") == [(SECRET, None)]


def test_policies_are_added_replaced_and_taken_away(opened: Open) -> None:
    registry = opened(KEY)
    registry.create_user("alice", SECRET, is_super=False, now_ms=17)
    denial = AccessPolicy(ON_ORDERS.resource, ALL_ACTIONS, allows=False)
    registry.put_policy("alice", ON_ORDERS)
    registry.put_policy("alice", denial)
    changed = replace(ON_ORDERS, actions=AccessAction.SUB, sources=())
    assert registry.put_policy("alice", changed).policies == (denial, changed)
    assert registry.read_snapshot().access.users["alice"].policies == (denial, changed)
    assert registry.delete_policy("alice", denial.resource, allows=False).policies == (changed,)
    with refused(pb.NOT_FOUND, "has no policy that denies"):
        registry.delete_policy("alice", denial.resource, allows=False)
    with refused(pb.NOT_FOUND, "there is no user 'bob'"):
        registry.put_policy("bob", ON_ORDERS)


@pytest.mark.slow
def test_a_user_has_so_many_policies_and_there_are_so_many_users(tmp_path: Path) -> None:
    with closing(Registry.open_sqlite(tmp_path / "registry.db", SecretEncryption([KEY]))) as registry:
        registry.users_max = 1
        registry.create_user("alice", SECRET, is_super=False, now_ms=17)
        for number in range(POLICIES_MAX):
            registry.put_policy("alice", replace(ON_ORDERS, resource=AccessResource.parse_resource(f"Topic:t{number}")))
        registry.put_policy(
            "alice", replace(ON_ORDERS, resource=AccessResource.parse_resource("Topic:t7"), actions=AccessAction.PUB)
        )
        with refused(pb.BAD_REQUEST, f"{POLICIES_MAX} policies"):
            registry.put_policy("alice", ON_ORDERS)
        with refused(pb.BAD_REQUEST, "there are 1 users"):
            registry.create_user("bob", SECRET, is_super=False, now_ms=17)


def test_the_last_super_user_who_is_enabled_stays_that(opened: Open) -> None:
    registry = opened(KEY)
    registry.create_user("root", SECRET, is_super=True, now_ms=17)
    registry.create_user("off", SECRET, is_super=True, now_ms=17)
    registry.update_user("off", is_enabled=False)
    for attempt in (
        lambda: registry.delete_user("root"),
        lambda: registry.update_user("root", is_super=False),
        lambda: registry.update_user("root", is_enabled=False),
    ):
        with refused(pb.PRECONDITION_FAILED, "'root' is the last enabled super user"):
            attempt()
    registry.update_user("off", is_enabled=True)
    registry.delete_user("root")
    assert set(registry.read_snapshot().access.users) == {"off"}


def test_with_a_wrong_key_users_have_no_secrets_and_one_warning_says_who(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    opened(KEY).create_user("alice", SECRET, is_super=True, now_ms=17)
    stranger = opened(OTHER)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert stranger.read_snapshot().access.users["alice"].secrets == ()
    (warning,) = caplog.messages
    assert "can't sign in here: alice" in warning
    assert SECRET not in caplog.text
    stranger.rotate_secret("alice", SECOND, now_ms=20, overlap_ms=0)
    assert secrets_of(stranger, "alice") == [(SECOND, None)]


def test_all_secrets_are_sealed_anew_with_the_first_key(opened: Open) -> None:
    registry = opened(KEY)
    registry.create_user("alice", SECRET, is_super=False, now_ms=17)
    registry.rotate_secret("alice", SECOND, now_ms=20, overlap_ms=500)
    opened(OTHER).create_user("bob", SECRET, is_super=False, now_ms=17)
    third = bytes([7]) * 32
    assert opened(third, KEY).reseal_secrets() == (1, ["bob"])
    assert secrets_of(opened(third), "alice") == [(SECOND, None), (SECRET, 520)]
    assert opened(third, KEY, OTHER).reseal_secrets() == (1, [])
    assert opened(third).reseal_secrets() == (0, [])
    assert secrets_of(opened(third), "bob") == [(SECRET, None)]


def test_who_has_no_secret_encryption_sees_users_without_secrets_and_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(Registry.open_sqlite(tmp_path / "registry.db", SecretEncryption([KEY]))) as registry:
        registry.create_user("alice", SECRET, is_super=True, now_ms=17)
    with closing(Registry.open_sqlite(tmp_path / "registry.db")) as broker:
        assert broker.read_snapshot().access.users["alice"].secrets == ()
    assert caplog.messages == []


def test_no_secret_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    with closing(Registry.open_sqlite(path, SecretEncryption(own_file=tmp_path / "secrets.key"))) as registry:
        registry.create_user("alice", SECRET, is_super=True, now_ms=17)
        registry.rotate_secret("alice", SECOND, now_ms=20, overlap_ms=500)
        assert SECOND not in repr(registry.read_snapshot())
    for file in tmp_path.iterdir():
        assert SECRET.encode() not in file.read_bytes()
        assert SECOND.encode() not in file.read_bytes()


POLICIES = st.builds(
    AccessPolicy,
    st.sampled_from(["*", "Topic:*", "Topic:orders", "Group:billing-*", "Cluster:users"]).map(
        AccessResource.parse_resource
    ),
    st.sampled_from(["Pub", "Sub,Get", "All", "Create,Update,Delete,List"]).map(AccessAction.parse_actions),
    st.booleans(),
    st.sampled_from(["", "10.0.0.0/8", "::1,192.168.0.0/16"]).map(parse_ranges),
)


@settings(max_examples=settings().max_examples // 4)
@given(policies=st.lists(POLICIES, max_size=8), data=st.data())
def test_whatever_is_done_to_a_user_is_read_as_it_was_answered(
    tmp_path_factory: pytest.TempPathFactory, policies: list[AccessPolicy], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("users") / "registry.db"
    with closing(Registry.open_sqlite(path, SecretEncryption([KEY]))) as registry:
        user = registry.create_user("alice", SECRET, is_super=data.draw(st.booleans()), now_ms=17)
        known = registry.read_snapshot()
        for policy in policies:
            user = registry.put_policy("alice", policy)
        if data.draw(st.booleans()):
            user = registry.rotate_secret("alice", SECOND, now_ms=20, overlap_ms=data.draw(st.integers(0, 100)))
        last = {(str(policy.resource), policy.allows): policy for policy in policies}
        assert set(user.policies) == set(last.values())
        assert registry.read_snapshot(known).access.users == {"alice": user}
    with closing(Registry.open_sqlite(path, SecretEncryption([KEY]))) as again:
        assert again.read_snapshot().access.users == {"alice": user}


# --- the first user


def test_the_first_super_user_is_made_once_by_whoever_comes_first(opened: Open) -> None:
    processes = [opened(KEY) for _ in range(3)]
    wanted = ProxySettings(init_user="root", init_secret=SECRET)
    with ThreadPoolExecutor(3) as threads:
        made = list(threads.map(lambda registry: create_init_user(registry, wanted, None), processes))
    assert sorted(made) == [False, False, True]
    root = opened(KEY).read_snapshot().access.users["root"]
    assert (root.is_super, [each.text for each in root.secrets]) == (True, [SECRET])
    assert not create_init_user(opened(KEY), ProxySettings(init_user="other", init_secret=SECOND), None)


def test_who_was_locked_out_gets_in_again_with_the_new_secret(opened: Open) -> None:
    registry = opened(KEY)
    registry.create_user("root", SECRET, is_super=False, now_ms=17)
    registry.update_user("root", is_enabled=False)
    assert create_init_user(registry, ProxySettings(init_user="root", init_secret=SECOND), None)
    root = registry.read_snapshot().access.users["root"]
    assert (root.is_super, root.is_enabled) == (True, True)
    assert secrets_of(registry, "root") == [(SECOND, None)]


def test_a_stack_writes_the_secret_that_it_makes_to_a_private_file_which_is_used_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = ServerSettings(init_user="root", data_dir=tmp_path)
    file = tmp_path / INIT_SECRET_FILE
    with closing(Registry.open_sqlite(tmp_path / "registry.db", SecretEncryption([KEY]))) as registry:
        assert create_init_user(registry, wanted, tmp_path)
        secret = file.read_text().strip()
        assert file.stat().st_mode & 0o777 == 0o600
        assert secrets_of(registry, "root") == [(secret, None)]
        assert str(file) in caplog.text
        assert secret not in caplog.text
    (tmp_path / "registry.db").unlink()
    with closing(Registry.open_sqlite(tmp_path / "registry.db", SecretEncryption([KEY]))) as registry:
        assert create_init_user(registry, wanted, tmp_path)
        assert secrets_of(registry, "root") == [(secret, None)]


def test_a_proxy_needs_the_secret_and_a_key(opened: Open) -> None:
    with pytest.raises(StartupError, match="TERNMQ_INIT_SECRET"):
        create_init_user(opened(KEY), ProxySettings(init_user="root"), None)
    with pytest.raises(StartupError, match="`ternmq user generate-key`"):
        create_init_user(opened(), ProxySettings(init_user="root", init_secret=SECRET), None)


def test_the_secret_can_be_in_a_file_which_may_be_gone_when_the_user_is_there(opened: Open, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    wanted = ProxySettings(init_user="root", init_secret_file=file)
    with pytest.raises(StartupError, match=r"\(init_secret_file\) can't be read: .*No such file"):
        create_init_user(opened(KEY), wanted, None)
    file.write_text("short\n")
    with pytest.raises(StartupError, match=r"\(init_secret_file\) has no secret") as refused:
        create_init_user(opened(KEY), wanted, None)
    assert "short" not in str(refused.value).removeprefix(str(file))
    file.write_text(f"{SECRET}\n")
    assert create_init_user(opened(KEY), wanted, None)
    assert secrets_of(opened(KEY), "root") == [(SECRET, None)]
    file.unlink()
    assert not create_init_user(opened(KEY), wanted, None)


# --- damage


def test_users_of_a_damaged_registry_are_taken_over_sealed_and_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    with closing(Registry.open_sqlite(path, SecretEncryption([KEY]))) as registry:
        for name in ("alice", "bob"):
            registry.create_user(name, SECRET, is_super=name == "alice", now_ms=17)
            registry.put_policy(name, ON_ORDERS)
        alice = registry.read_snapshot().access.users["alice"]
    damaged = path.read_bytes().replace(b'"actions": "Pub,Sub"', b'"actions": "Pub,Get"', 1)
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    found = salvage_registry(path)
    assert found.damage is not None
    (lost,) = found.unreadable
    (kept,) = found.users
    assert lost == f"users '{'bob' if kept == 'alice' else 'alice'}'"
    replace_damaged(path, [], [], found.users.values())
    with closing(Registry.open_sqlite(path, SecretEncryption([KEY]))) as registry:
        users = registry.read_snapshot().access.users
        assert users[kept] == (alice if kept == "alice" else replace(alice, name="bob", is_super=False))
