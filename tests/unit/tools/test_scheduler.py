"""Which tiers run at the same time: a machine's cores and memory are not exceeded, and every tier comes to its turn."""

from hypothesis import given
from hypothesis import strategies as st

from tools.tiers.scheduler import CORES_FACTOR, Schedule
from tools.tiers.tiers import BY_NAME, LANDING, PREPARATIONS, QUICK, TIERS, Tier

PREPARED = ("java", "docker", "postgres")


def tier(name: str, **fields: object) -> Tier:
    return Tier(name=name, commands=(("true",),), **fields)  # type: ignore[arg-type]


TIERS_OF_ANY_KIND = st.lists(
    st.builds(
        tier,
        name=st.uuids().map(str),
        needs=st.lists(st.sampled_from(PREPARED), unique=True).map(tuple),
        cores=st.floats(0.1, 5),
        memory_mib=st.integers(1, 9000),
        alone_with=st.sampled_from(("", "docker", "port")),
    ),
    max_size=12,
)


@given(tiers=TIERS_OF_ANY_KIND, data=st.data())
def test_every_tier_runs_once_and_what_runs_together_fits(tiers: list[Tier], data: st.DataObject) -> None:
    schedule = Schedule(tiers, PREPARED, cores=2.0, memory_mib=8000)
    started, blocked = list[str](), set[str]()
    while not schedule.is_finished:
        blocked |= (now_blocked := set(schedule.blocked()))
        schedule.ended |= now_blocked
        if preparation := schedule.next_preparation():
            schedule.preparing = preparation
        while chosen := schedule.next_tier():
            assert all(schedule.done.get(need) for need in chosen.needs)
            schedule.running[chosen.name] = chosen
            started.append(chosen.name)
            running = list(schedule.running.values())
            words = [each.alone_with for each in running if each.alone_with]
            assert len(words) == len(set(words))
            if len(running) > 1:
                assert sum(each.cores for each in running) <= 2.0 * CORES_FACTOR
                assert sum(each.memory_mib for each in running) <= 8000
        ends = [*schedule.running, *([schedule.preparing] if schedule.preparing else [])]
        if not ends:
            continue
        if (ended := data.draw(st.sampled_from(ends))) == schedule.preparing:
            schedule.preparing, schedule.done[ended] = "", data.draw(st.booleans(), label=f"{ended} succeeds")
        else:
            del schedule.running[ended]
            schedule.ended.add(ended)
    assert sorted([*started, *blocked]) == sorted(each.name for each in tiers)
    assert all(any(not schedule.done.get(need, True) for need in each.needs) for each in tiers if each.name in blocked)


def test_the_names_of_tiers_and_preparations_are_those_that_there_are() -> None:
    assert set(QUICK) | set(LANDING) | set(BY_NAME) == set(TIERS)
    assert {need for each in TIERS.values() for need in each.needs} <= set(PREPARATIONS)
