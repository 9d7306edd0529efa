"""Groups are moved over what they consumed at the source, never back, and not while they have members here."""

from ternmq_command.mirror.group_moves import GroupMoves
from ternmq_command.mirror.positions import Queue, TopicPositions
from tests.unit.command.mirror.memory_clusters import MemorySource, MemoryTarget, connect

THERE, HERE, GROUP = Queue("a", "orders", 0), Queue("here", "orders", 0), "billing"


class World:
    """Ten copied messages, and a group on both sides."""

    def __init__(self) -> None:
        self.source, self.target, self.notes = MemorySource([THERE]), MemoryTarget([HERE]), list[str]()
        self.target.groups = frozenset({GROUP})
        self.positions = TopicPositions()
        for offset in range(10):
            self.target.contents[HERE].append(HERE, b"x", "", 0)
            self.positions.note_copied(HERE, offset, THERE, offset, [offset])
        self.shared = connect(self.source, self.target, self.notes)
        self.moves = GroupMoves(self.shared)

    async def move(self, consumed: int | None = None) -> int | None:
        """Move the group after it has consumed so much there; return where it is here."""
        if consumed is not None:
            self.source.offsets = {GROUP: {THERE: consumed}}
        await self.moves.move_groups([GROUP], {"orders": self.positions})
        return self.target.offsets.get((GROUP, HERE))


async def test_a_group_follows_and_is_asked_about_only_if_something_changed() -> None:
    world = World()
    assert await world.move() is None
    assert await world.move(4) == 4
    assert await world.move(4) == 4
    assert await world.move(7) == 7
    assert await world.move(99) == 10
    assert [offset for _, _, offset in world.target.commits] == [4, 7, 10]
    assert world.shared.counts.moved_groups == 3


async def test_what_a_group_would_get_again_is_counted() -> None:
    world = World()
    world.target.contents[HERE].append(HERE, b"own", "", 0)
    world.positions.note_copied(HERE, 11, THERE, 10, [10])
    await world.move(11)
    assert world.moves.behind == {GROUP: 1}  # behind the message of a producer here
    await world.move(14)
    assert world.moves.behind == {GROUP: 4}  # three are not copied yet
    world.target.members.add(GROUP)
    world.positions.note_copied(HERE, 12, THERE, 11, [11])
    await world.move(14)
    assert world.moves.behind == {GROUP: 4}
    world = World()
    world.target.members.add(GROUP)
    await world.move(5)
    assert world.moves.behind == {}


async def test_a_group_is_never_moved_back() -> None:
    world = World()
    assert await world.move(8) == 8
    assert await world.move(2) == 8
    world.target.offsets[GROUP, HERE] = 9  # its consumers were here for a while
    assert await world.move(8) == 9


async def test_a_group_with_members_is_left_alone_until_they_are_gone() -> None:
    world = World()
    world.target.members.add(GROUP)
    assert await world.move(5) is None
    world.target.members.clear()
    assert await world.move(5) == 5


async def test_a_group_that_is_not_here_is_named_once() -> None:
    world = World()
    world.target.groups = frozenset()
    await world.move(5)
    await world.move(6)
    assert world.target.commits == []
    [note] = world.notes
    assert "group billing is not at the target" in note


async def test_a_group_has_left_after_two_looks() -> None:
    world = World()
    world.source.members.add(GROUP)
    await world.move(5)
    world.source.members.clear()
    await world.move(5)
    assert world.shared.left_groups == set()
    await world.move(5)
    assert world.shared.left_groups == {GROUP}
    world.source.members.add(GROUP)
    await world.move(5)
    assert world.shared.left_groups == set()
