"""The registry: the real one on SQLite, with the world's time, that each process reaches as well as chance lets it."""

import functools
from typing import TYPE_CHECKING, Any

from sqlalchemy import event

from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.registry import Registry
from ternmq_registry.sql.file_opening import open_engine
from tests.simulation.running.loop import Fault
from tests.support.new_registry import put_new_registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.running.loop import ProcessLoop
    from tests.simulation.running.world import World

_JULIAN_EPOCH, _DAY_MS = 2440587.5, 86_400_000
_IN_SYNC = "SELECT store_id FROM replicas WHERE in_sync"
_LATE_S = 3.0


class LastRenewal:
    """The renewal of a lease that is done in time and answered `heard_s` seconds later; `done` is called then.

    A leader renews by three calls, one after the other: it is the answer to the last one that is late.
    """

    def __init__(self, heard_s: float, done: "Callable[[], None]") -> None:
        self.heard_s = heard_s
        self._done = done
        self._left = ["record_heartbeat", "heartbeat_replica", "read_brokers"]

    def takes(self, name: str) -> bool:
        """Whether this call is the one whose answer is late."""
        if name == self._left[0]:
            del self._left[0]
        if not self._left:
            self._done()
        return not self._left


class SimulatedRegistry:
    """One database for all processes of a run. `lossy` is the share of calls that fail while it is disturbed, and
    `slow_s` how long the others wait. Processes in `away` and `away_for_good` do not reach it at all; the latter also
    when nothing is disturbed any more. A process in `last_renewals` renews its lease once more, hears of that late,
    and is away for good from then on. Who is elected hears of that `elected_s` seconds later."""

    def __init__(self, world: "World") -> None:
        self._world = world
        path = world.folder / "registry.db"
        put_new_registry(path)
        self._engine = open_engine(path)
        self._engine.dispose()
        event.listen(self._engine, "connect", self._connected)
        self.own = Registry(self._engine)
        self.lossy = 0.0
        self.slow_s = 0.0
        self.elected_s = 0.0
        self.away: set[str] = set()
        self.away_for_good: set[str] = set()
        self.last_renewals: dict[str, LastRenewal] = {}
        self._looking = self._engine.raw_connection()
        assert self._looking.driver_connection is not None
        self._looking.driver_connection.isolation_level = None

    def _connected(self, connection: Any, _: object) -> None:  # noqa: ANN401 - sqlite3's
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("PRAGMA journal_mode=MEMORY")
        connection.create_function("julianday", 1, lambda _: self._world.now_ms() / _DAY_MS + _JULIAN_EPOCH)

    def reached_by(self, process: "ProcessLoop") -> Registry:
        """The registry as that process has it."""
        registry = Registry(self._engine)
        process.threads = functools.partial(self._fault, process, registry)
        return registry

    def _fault(self, process: "ProcessLoop", registry: Registry, work: "Callable[..., object]") -> Fault | None:
        """What happens to a call of a process."""
        called = work.args[0] if isinstance(work, functools.partial) else work
        if getattr(called, "__self__", None) is not registry:
            return None
        dice = self._world.dice
        name = getattr(called, "__name__", "")
        if (last := self.last_renewals.get(process.name)) is not None and last.takes(name):
            self.away_for_good.add(process.name)
            del self.last_renewals[process.name]
            return Fault(heard_s=last.heard_s)
        if self.elected_s and name == "take_leadership" and process.name not in self.away_for_good:
            return Fault(heard_s=self.elected_s)
        wait_s = dice.uniform(0, self.slow_s)
        if process.name in self.away or process.name in self.away_for_good:
            return Fault(wait_s=dice.uniform(0, 0.3), error=RegistryUnavailable("it is cut off"))
        if dice.random() >= self.lossy:
            return Fault(wait_s=wait_s, heard_s=dice.uniform(0, self.slow_s)) if wait_s else None
        error = RegistryUnavailable("no answer")
        chance = dice.random()
        if chance < 0.4:
            self._world.note(f"{name} is done, and nobody hears it")
            return Fault(wait_s=wait_s, error=error, is_done=True)
        if chance < 0.7:
            self._world.note(f"{name} is done later, and nobody hears it")
            return Fault(wait_s=wait_s, error=error, later_s=dice.uniform(0, _LATE_S))
        return Fault(wait_s=wait_s, error=error)

    def lose_nothing(self) -> None:
        self.lossy = 0.0

    def be_fast(self) -> None:
        self.slow_s = 0.0

    def heal(self) -> None:
        """From now on all reach it."""
        self.lose_nothing()
        self.be_fast()
        self.away.clear()

    def in_sync(self) -> set[str]:
        """The stores that may lead next, as it has them at this moment."""
        connection = self._looking.driver_connection
        assert connection is not None
        return {store for (store,) in connection.execute(_IN_SYNC).fetchall()}

    def close(self) -> None:
        self._looking.close()
        self._engine.dispose()
