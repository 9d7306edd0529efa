"""When a leader whose disk has no room gives the leadership away, and to whom."""

from ternmq_broker.replication.space_shortage import AFTER_FAILURE_S, PATIENCE_S, SpaceAction, SpaceShortage


class Leader:
    """One that refuses sends for lack of room, from 100 s on."""

    def __init__(self) -> None:
        self.shortage = SpaceShortage()
        self.shortage.begin_leadership()
        assert self.after(0.0, b=1) is None

    def after(self, seconds: float, *, is_short: bool = True, **with_room: int) -> SpaceAction | None:
        return self.shortage.space_action(100.0 + seconds, is_short=is_short, with_room=with_room)


def test_a_shortage_that_lasts_ends_by_a_move_to_one_that_has_room() -> None:
    leader = Leader()
    assert leader.after(PATIENCE_S - 0.1, b=1) is None
    assert leader.after(PATIENCE_S, b=1) == SpaceAction("b")
    assert leader.after(PATIENCE_S + 0.1, b=1) is None


def test_of_several_the_one_that_holds_the_most_is_to_lead() -> None:
    assert Leader().after(PATIENCE_S, b=7, c=9, d=8) == SpaceAction("c")
    assert Leader().after(PATIENCE_S, d=9, c=9) == SpaceAction("c")


def test_that_nobody_has_room_is_said_once_until_somebody_has() -> None:
    leader = Leader()
    assert leader.after(PATIENCE_S) == SpaceAction(None)
    assert leader.after(PATIENCE_S + 1) is None
    assert leader.after(PATIENCE_S + 500) is None
    assert leader.after(PATIENCE_S + 501, b=1) == SpaceAction("b")


def test_a_shortage_that_ends_in_between_begins_anew() -> None:
    leader = Leader()
    assert leader.after(PATIENCE_S / 2, is_short=False) is None
    assert leader.after(PATIENCE_S, b=1) is None
    assert leader.after(2 * PATIENCE_S, b=1) == SpaceAction("b")


def test_after_a_move_that_failed_none_is_tried_for_long() -> None:
    leader = Leader()
    assert leader.after(PATIENCE_S, b=1) == SpaceAction("b")
    leader.shortage.note_failure(100.0 + 5.0)
    leader.shortage.begin_leadership()
    assert leader.after(10.0, b=1) is None
    assert leader.after(5.0 + AFTER_FAILURE_S - 0.1, b=1) is None
    assert leader.after(5.0 + AFTER_FAILURE_S, b=1) == SpaceAction("b")


def test_who_leads_again_after_a_move_that_worked_waits_no_longer_than_before() -> None:
    leader = Leader()
    assert leader.after(PATIENCE_S, b=1) == SpaceAction("b")
    leader.shortage.begin_leadership()
    assert leader.after(10.0, b=1) is None
    assert leader.after(10.0 + PATIENCE_S, b=1) == SpaceAction("b")
