"""The members that a proxy reports to a broker: all of them once, then changes."""

from hypothesis import given
from hypothesis import strategies as st

from ternmq_broker.server.members.reported_members import ReportedMembers
from ternmq_common.shard.model import PullingMember

MEMBERS = st.builds(PullingMember, st.sampled_from("gh"), st.sampled_from("ab"), st.just(()) | st.just(("t",)))


@given(first=st.lists(MEMBERS), joined=st.lists(MEMBERS), data=st.data())
def test_changes_lead_to_what_a_new_report_says(
    first: list[PullingMember], joined: list[PullingMember], data: st.DataObject
) -> None:
    everyone = first + joined
    leaving = [number for number in range(len(everyone)) if data.draw(st.booleans())]
    left = [everyone[number] for number in leaving]
    changed, reported = ReportedMembers(), ReportedMembers()
    changed.replace_all(first)
    changed.add_changes(joined, left)
    reported.replace_all([each for number, each in enumerate(everyone) if number not in leaving])
    assert set(changed) == set(reported)
    for group in "gh":
        assert set(changed.members_of(group)) == {each for each in reported if each.group == group}


def test_who_was_not_there_cannot_leave() -> None:
    members = ReportedMembers()
    members.add_changes([PullingMember("g", "a")], [PullingMember("g", "b"), PullingMember("h", "a")])
    assert list(members) == [PullingMember("g", "a")]
