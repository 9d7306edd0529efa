"""What happens at once in a shard: elections, heartbeats, and changes of the in-sync set."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import pytest
from sqlalchemy import Connection, Engine, text

from ternmq_common.catalog.cluster import BrokerLoad
from ternmq_common.errors import MessagingError, StartupError
from ternmq_registry.registry import Registry
from ternmq_registry.sql.database import create_postgres_engine
from tests.unit.registry.conftest import Open, Sql
from tests.unit.registry.test_shards import (
    LEADERS_LEASE_RUNS_OUT,
    LEASE_MS,
    LEASE_RUNS_OUT,
    in_sync,
    joined,
    led,
    replica,
    replicated,
    shard,
    stores,
)

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

ROUNDS = 8
LEADER_LIVES = "UPDATE brokers SET lease_end_ms = CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) + 60000"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


def at_once(first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    barrier = threading.Barrier(2)

    def met(call: Callable[[], C]) -> C:
        barrier.wait()
        return call()

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.submit(met, first), threads.submit(met, second)
        return one.result(), other.result()


def test_of_candidates_at_once_one_leads(open_registry: Open, sql: Sql) -> None:
    one, other = open_registry(), open_registry()
    epoch = replicated(one)
    for _ in range(ROUNDS):
        leader = shard(one).store_id
        first, second = [name for name in "abc" if f"store-{name}" != leader]
        sql(LEADERS_LEASE_RUNS_OUT)
        epochs = at_once(partial(led, one, first, epoch), partial(led, other, second, epoch))
        (following,) = [each for each in epochs if each is not None]
        found = shard(one)
        assert (found.epoch, found.live) == (following, True)
        assert found.store_id == f"store-{(first, second)[epochs.index(following)]}"
        all_in_sync = stores("abc")
        assert one.set_in_sync("b1", following, frozenset(f"store-{name}" for name in in_sync(one)), all_in_sync)
        epoch = following


def test_a_replica_leads_or_leaves_the_set_but_not_both(open_registry: Open, sql: Sql) -> None:
    """The leader acknowledges what `b` has not, when `b` is out of the set: so `b` must not lead then."""
    one, other = open_registry(), open_registry()
    epoch = replicated(one)
    for _ in range(ROUNDS):
        sql(LEADERS_LEASE_RUNS_OUT)
        is_out, following = at_once(
            partial(one.set_in_sync, "b1", epoch, stores("abc"), stores("ac")), partial(led, other, "b", epoch)
        )
        assert is_out == (following is None)
        assert in_sync(one) == ({"a", "c"} if is_out else {"b", "c"})
        epoch = _all_again(one, following)


def _all_again(registry: Registry, of_b: int | None) -> int:
    """Have all in sync, and `a` lead; the epoch."""
    if of_b is not None:
        assert registry.set_in_sync("b1", of_b, stores("bc"), stores("abc"))
        epoch = registry.hand_over("b1", of_b, "store-a", LEASE_MS)
    else:
        epoch = led(registry, "a")
        assert epoch is not None
        assert registry.set_in_sync("b1", epoch, stores("ac"), stores("abc"))
    assert epoch is not None
    return epoch


def test_leadership_goes_to_one_when_it_is_handed_over_and_taken(open_registry: Open, sql: Sql) -> None:
    one, other = open_registry(), open_registry()
    epoch = replicated(one)
    sql(LEADERS_LEASE_RUNS_OUT)
    given, taken = at_once(lambda: one.hand_over("b1", epoch, "store-b", LEASE_MS), lambda: led(other, "c", epoch))
    assert (given is None) != (taken is None)
    assert shard(one).store_id == ("store-b" if taken is None else "store-c")


class _Between:
    """A transaction of somebody else, in which a row is locked while calls of the registry wait for it."""

    def __init__(self, connection: Connection, observer: Connection) -> None:
        self._connection = connection
        self._observer = observer

    def does(self, statement: str) -> None:
        assert self._connection.execute(text(statement)).rowcount > 0

    def until_waiting(self, calls: int) -> None:
        """Until so many wait for a lock; pytest's time-out ends a test in which they never do."""
        while self._observer.execute(text(WAITING)).scalar_one() < calls:
            self._observer.rollback()

    def commits(self) -> None:
        self._connection.commit()

    def rolls_back(self) -> None:
        self._connection.rollback()


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    made = create_postgres_engine(url)
    yield made
    made.dispose()


@pytest.fixture
def between(engine: Engine) -> Iterator[_Between]:
    with engine.connect() as connection, engine.connect() as observer:
        yield _Between(connection, observer)


@pytest.fixture
def clustered(url: str) -> Iterator[Registry]:
    registry = Registry.open_postgres(url)
    yield registry
    registry.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def ends(engine: Engine, statement: str) -> None:
    with engine.begin() as connection:
        connection.execute(text(statement))


def test_a_heartbeat_that_commits_while_another_wants_to_lead_wins(
    clustered: Registry, engine: Engine, between: _Between, pool: ThreadPoolExecutor
) -> None:
    epoch = replicated(clustered)
    ends(engine, LEADERS_LEASE_RUNS_OUT)
    before = clustered.read_snapshot().version
    between.does(LEADER_LIVES)
    candidate = pool.submit(led, clustered, "b", epoch)
    between.until_waiting(1)
    between.commits()
    assert candidate.result() is None
    assert (shard(clustered).store_id, shard(clustered).live) == ("store-a", True)
    assert clustered.read_snapshot().version == before
    assert in_sync(clustered) == {"a", "b", "c"}


def test_a_heartbeat_that_does_not_commit_changes_nothing(
    clustered: Registry, engine: Engine, between: _Between, pool: ThreadPoolExecutor
) -> None:
    epoch = replicated(clustered)
    ends(engine, LEADERS_LEASE_RUNS_OUT)
    between.does(LEADER_LIVES)
    candidate = pool.submit(led, clustered, "b", epoch)
    between.until_waiting(1)
    between.rolls_back()
    assert candidate.result() is not None


def test_a_heartbeat_that_comes_while_another_leads_is_refused(
    clustered: Registry, engine: Engine, between: _Between, pool: ThreadPoolExecutor
) -> None:
    epoch = replicated(clustered)
    ends(engine, LEADERS_LEASE_RUNS_OUT)
    between.does("UPDATE replicas SET position = 5 WHERE name = 'c'")  # the candidate has the broker's row then
    candidate = pool.submit(led, clustered, "b", epoch)
    between.until_waiting(1)
    heartbeat = pool.submit(clustered.record_heartbeat, "b1", epoch, BrokerLoad(), LEASE_MS)
    between.until_waiting(2)
    between.commits()
    assert candidate.result() is not None
    assert not heartbeat.result()
    assert shard(clustered).store_id == "store-b"


def test_a_heartbeat_prevents_an_unclean_election(
    clustered: Registry, engine: Engine, between: _Between, pool: ThreadPoolExecutor
) -> None:
    replicated(clustered, synced="a")
    ends(engine, LEADERS_LEASE_RUNS_OUT)
    between.does(LEADER_LIVES)
    election: Future[object] = pool.submit(clustered.elect_unclean, "b1", "b")
    between.until_waiting(1)
    between.commits()
    with pytest.raises(MessagingError, match="the leader of broker 'b1' is live"):
        election.result()
    assert (shard(clustered).store_id, in_sync(clustered)) == ("store-a", {"a"})


def test_a_replica_that_comes_to_life_keeps_its_place(
    clustered: Registry, engine: Engine, between: _Between, pool: ThreadPoolExecutor
) -> None:
    replicated(clustered)
    ends(engine, LEASE_RUNS_OUT.format("b"))
    between.does(LEADER_LIVES.replace("brokers", "replicas") + " WHERE name = 'b'")
    newcomer = pool.submit(joined, clustered, "b", "new")
    between.until_waiting(1)
    between.commits()
    with pytest.raises(StartupError, match="replica 'b' of broker 'b1'"):
        newcomer.result()
    assert replica(clustered, "b").store_id == "store-b"
