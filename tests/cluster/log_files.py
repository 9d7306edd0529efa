"""The commit logs of a shard's replicas, as files: what they have in common they have byte for byte."""

from collections.abc import Sequence

from tests.cluster.shard import Shard
from tests.support.cluster_processes import ReplicaProcess


def log_of(replica: ReplicaProcess) -> dict[str, bytes]:
    """The segments of a replica's commit log by their names, without the room that is reserved at their ends."""
    folder = replica.data / "store" / "commitlog"
    return {path.name: path.read_bytes().rstrip(b"\0") for path in sorted(folder.iterdir())}


def differences(replicas: Sequence[ReplicaProcess]) -> list[str]:
    """Where logs are not the same: a replica that began as a copy may lack the first segments, and one that was ended
    before another its last bytes."""
    logs = {replica.replica: log_of(replica) for replica in replicas}
    names = set[str].intersection(*(set(log) for log in logs.values()))
    found = [] if names else ["the replicas have no segment in common"]
    for name in sorted(names):
        least = min(len(log[name]) for log in logs.values())
        if least == 0:
            found.append(f"{name} is empty at one of them")
        if len({log[name][:least] for log in logs.values()}) != 1:
            lengths = {replica: len(log[name]) for replica, log in logs.items()}
            found.append(f"{name} is not the same at all replicas in its first {least} bytes, of {lengths}")
    return found


async def end_and_compare(shard: Shard) -> list[str]:
    """Kill all replicas, the leader last, when they are in sync; and how their logs differ."""
    await shard.in_sync(len(shard.replicas))
    leader = await shard.leader()
    for replica in (*(each for each in shard.replicas if each is not leader), leader):
        replica.kill9()
    return differences(shard.replicas)
