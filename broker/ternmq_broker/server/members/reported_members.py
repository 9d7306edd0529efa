"""The members of groups that pull, as one proxy reports them: all once, then what changes."""

from collections import Counter
from collections.abc import Iterable, Iterator

from ternmq_common.shard.model import PullingMember


class ReportedMembers:
    """The members of one proxy. A member whose client has two connections may be reported twice."""

    def __init__(self) -> None:
        self._groups: dict[str, Counter[PullingMember]] = {}

    def __iter__(self) -> Iterator[PullingMember]:
        return (member for members in self._groups.values() for member in members)

    def members_of(self, group: str) -> Iterable[PullingMember]:
        """Return those of one group."""
        return self._groups.get(group, ())

    def replace_all(self, members: Iterable[PullingMember]) -> None:
        """Take a report of all members."""
        self._groups.clear()
        self.add_changes(members, ())

    def add_changes(self, joined: Iterable[PullingMember], left: Iterable[PullingMember]) -> None:
        """Take a report of what has changed."""
        for member in joined:
            self._groups.setdefault(member.group, Counter())[member] += 1
        for member in left:
            members = self._groups.get(member.group)
            if members is None or member not in members:
                continue
            members[member] -= 1
            if not members[member]:
                del members[member]
                if not members:
                    del self._groups[member.group]
