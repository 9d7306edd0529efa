"""What a run is made of; a breakage puts a broken part in its place."""

from dataclasses import dataclass

from ternmq_broker.replication.follower_state import FollowerState
from ternmq_broker.replication.leader_state import LeaderState
from ternmq_broker.replication.timing import ReplicationTiming
from tests.simulation.leader import Leader
from tests.simulation.registry import Registry
from tests.simulation.replica import Replica


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    following: type[FollowerState] = FollowerState
    leading: type[LeaderState] = LeaderState
    timing: type[ReplicationTiming] = ReplicationTiming
    registry: type[Registry] = Registry
    replica: type[Replica] = Replica
    leader: type[Leader] = Leader
