"""What a shard of replicas suffers, by name; each blow ends when what it took away is given back."""

import asyncio
import random
import shutil
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack

from ternmq_common.errors import MessagingError
from tests.cluster.network import Member
from tests.cluster.network_shard import NetworkShard
from tests.cluster.shard import Shard
from tests.support.cluster_processes import MemberProcess, ReplicaProcess

# Up to three times the lease.
DOWN_S = (0.0, 6.0)
HANG_S = (2.5, 6.0)
REGISTRY_AWAY_S = (1.0, 10.0)
LED_WITHIN_S = 60.0


class Blows:
    """`dice` chooses who is hit, and for how long; `say` hears what happens."""

    def __init__(self, shard: Shard, dice: random.Random, say: Callable[[str], None]) -> None:
        self._shard = shard
        self._dice = dice
        self._say = say

    async def fall(self, name: str) -> None:
        """One blow, from its beginning to its end."""
        await BLOWS[name](self)

    # --- processes

    async def leader_killed(self) -> None:
        await self._killed(await self._shard.leader())

    async def follower_killed(self) -> None:
        await self._killed(await self._follower())

    async def _killed(self, *victims: MemberProcess) -> None:
        down_s = self._dice.uniform(*DOWN_S)
        self._say(f"SIGKILL for {_names(victims)}, away for {down_s:.1f} s")
        for victim in victims:
            victim.kill9()
        await asyncio.sleep(down_s)
        await _started(victims)

    async def two_killed(self) -> None:
        """Nothing can be acknowledged until one of them is back."""
        await self._killed(*self._dice.sample(self._shard.replicas, 2))

    async def all_killed(self) -> None:
        """As when the power fails; what was written is kept by the machine."""
        victims = self._dice.sample(self._shard.replicas, 3)
        self._say("SIGKILL for all replicas")
        for victim in victims:
            victim.kill9()
        for victim in victims:  # in any order, one after the other
            await asyncio.sleep(self._dice.uniform(0, 2))
            await _started([victim])

    async def leader_hangs(self) -> None:
        await self._hangs(await self._shard.leader())

    async def follower_hangs(self) -> None:
        await self._hangs(await self._follower())

    async def _hangs(self, victim: MemberProcess) -> None:
        hang_s = self._dice.uniform(*HANG_S)
        is_killed = self._dice.random() < 0.3
        self._say(f"SIGSTOP for {victim.title} for {hang_s:.1f} s{', then SIGKILL' if is_killed else ''}")
        victim.pause()
        await asyncio.sleep(hang_s)
        if is_killed:
            victim.kill9()
            await _started([victim])
        else:
            victim.resume()

    async def leader_ended(self) -> None:
        await self._ended(await self._shard.leader())

    async def follower_ended(self) -> None:
        await self._ended(await self._follower())

    async def _ended(self, victim: MemberProcess) -> None:
        self._say(f"SIGTERM for {victim.title}")
        code = await asyncio.to_thread(victim.terminate)
        assert code == 0, f"{victim.title} ended with {code}"
        await asyncio.sleep(self._dice.uniform(*DOWN_S))
        await _started([victim])

    async def leader_moved(self) -> None:
        target = await self._follower()
        self._say(f"{target.title} is to lead")
        try:
            await asyncio.to_thread(self._shard.registry.request_handover, self._shard.name, target.replica)
        except MessagingError as error:
            self._say(f"that can't be now: {error}")  # another blow's traces
            return
        await asyncio.sleep(self._dice.uniform(0, 2))

    async def proxy_killed(self) -> None:
        await self._killed(self._dice.choice(self._shard.cluster.proxies))

    async def proxy_hangs(self) -> None:
        await self._hangs(self._dice.choice(self._shard.cluster.proxies))

    # --- disks; only on a shard that is whole

    async def follower_wiped(self) -> None:
        await self._wiped(await self._follower())

    async def leader_wiped(self) -> None:
        await self._wiped(await self._shard.leader())

    async def _wiped(self, victim: ReplicaProcess) -> None:
        down_s = self._dice.uniform(*DOWN_S)
        leader = await self._shard.leader()
        self._say(f"{victim.title} loses its disk, away for {down_s:.1f} s")
        victim.kill9()
        shutil.rmtree(victim.data)
        if victim is leader:
            await self._shard.led_by_another(victim, within_s=LED_WITHIN_S)
        await asyncio.sleep(down_s)
        await _started([victim])
        await self._shard.in_sync(len(self._shard.replicas), within_s=LED_WITHIN_S)

    # --- the registry

    async def registry_killed(self) -> None:
        away_s = self._dice.uniform(*REGISTRY_AWAY_S)
        self._say(f"SIGKILL for PostgreSQL, away for {away_s:.1f} s")
        await asyncio.to_thread(self._shard.cluster.postgres.kill)
        await asyncio.sleep(away_s)
        await asyncio.to_thread(self._shard.cluster.postgres.start)

    async def registry_hangs(self) -> None:
        away_s = self._dice.uniform(*REGISTRY_AWAY_S)
        self._say(f"SIGSTOP for PostgreSQL for {away_s:.1f} s")
        await asyncio.to_thread(self._shard.cluster.postgres.pause)
        await asyncio.sleep(away_s)
        await asyncio.to_thread(self._shard.cluster.postgres.resume)

    async def registry_and_leader_killed(self) -> None:
        """Nobody can take over before the registry is back."""
        leader = await self._shard.leader()
        self._say(f"SIGKILL for PostgreSQL and {leader.title}")
        await asyncio.to_thread(self._shard.cluster.postgres.kill)
        leader.kill9()
        await asyncio.sleep(self._dice.uniform(*DOWN_S))
        await asyncio.to_thread(self._shard.cluster.postgres.start)
        await _started([leader])

    # --- the network

    async def leader_cut_from_followers(self) -> None:
        leader = await self._shard.leader()
        shard = self._network
        await self._cut(f"{leader.title} from the followers", shard.machine(leader), shard.others(leader))

    async def leader_cut_from_registry(self) -> None:
        leader = await self._shard.leader()
        shard = self._network
        await self._cut(f"{leader.title} from the registry", shard.machine(leader), [shard.cluster.registry])

    async def leader_unplugged(self) -> None:
        leader = await self._shard.leader()
        await self._without(f"{leader.title} is unplugged", [self._network.machine(leader).unplugged()])

    async def follower_cut_from_leader(self) -> None:
        leader, follower = await self._shard.leader(), await self._follower()
        machine = self._network.machine
        await self._cut(f"{follower.title} from the leader", machine(follower), [machine(leader)])

    async def follower_unplugged(self) -> None:
        follower = await self._follower()
        await self._without(f"{follower.title} is unplugged", [self._network.machine(follower).unplugged()])

    async def leader_cut_from_proxies(self) -> None:
        leader = await self._shard.leader()
        shard = self._network
        proxies = self._dice.sample(shard.cluster.proxies, self._dice.choice((1, 2)))
        machines = [shard.machine(proxy) for proxy in proxies]
        await self._cut(f"{leader.title} from {_names(proxies)}", shard.machine(leader), machines)

    @property
    def _network(self) -> NetworkShard:
        assert isinstance(self._shard, NetworkShard), "this blow needs a network"
        return self._shard

    async def _cut(self, what: str, one: Member, others: Sequence[Member]) -> None:
        await self._without(f"{what}: cut", [one.cut_from(other) for other in others])

    async def _without(self, what: str, cuts: Sequence[AbstractContextManager[None]]) -> None:
        away_s = self._dice.uniform(1.0, 8.0)
        self._say(f"{what}, for {away_s:.1f} s")
        with ExitStack() as stack:
            for cut in cuts:
                stack.enter_context(cut)
            await asyncio.sleep(away_s)

    async def _follower(self) -> ReplicaProcess:
        return self._dice.choice(await self._shard.followers())


async def _started(victims: Sequence[MemberProcess]) -> None:
    await asyncio.gather(*(asyncio.to_thread(victim.start) for victim in victims))


def _names(processes: Sequence[MemberProcess]) -> str:
    return " and ".join(process.title for process in processes)


Blow = Callable[[Blows], Awaitable[None]]

ON_WHOLE: dict[str, Blow] = {
    "follower wiped": Blows.follower_wiped,
    "leader wiped": Blows.leader_wiped,
}
ON_NETWORK: dict[str, Blow] = {
    "leader cut from followers": Blows.leader_cut_from_followers,
    "leader cut from registry": Blows.leader_cut_from_registry,
    "leader unplugged": Blows.leader_unplugged,
    "follower cut from leader": Blows.follower_cut_from_leader,
    "follower unplugged": Blows.follower_unplugged,
    "leader cut from proxies": Blows.leader_cut_from_proxies,
}
BLOWS: dict[str, Blow] = {
    "leader killed": Blows.leader_killed,
    "follower killed": Blows.follower_killed,
    "two killed": Blows.two_killed,
    "all killed": Blows.all_killed,
    "leader hangs": Blows.leader_hangs,
    "follower hangs": Blows.follower_hangs,
    "leader ended": Blows.leader_ended,
    "follower ended": Blows.follower_ended,
    "leader moved": Blows.leader_moved,
    "proxy killed": Blows.proxy_killed,
    "proxy hangs": Blows.proxy_hangs,
    "registry killed": Blows.registry_killed,
    "registry hangs": Blows.registry_hangs,
    "registry and leader killed": Blows.registry_and_leader_killed,
    **ON_WHOLE,
    **ON_NETWORK,
}
"""Each by its name."""
