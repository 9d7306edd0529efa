"""The latest half messages stay in memory up to a number of bytes, and the oldest go first."""

from hypothesis import given
from hypothesis import strategies as st

from ternmq_broker.store.log.record import RecordKind
from ternmq_broker.store.record_drafts import RecordDraft
from ternmq_broker.transactions.recent_halves import RecentHalves
from ternmq_common.shard.model import NewMessage

KIB = 1024


def draft(size: int) -> RecordDraft:
    return RecordDraft(RecordKind.HALF_MESSAGE, "orders", 0, NewMessage(0, b"", bytes(size), ("id",)))


def kept(recent: RecentHalves, count: int) -> list[int]:
    return [number for number in range(count) if recent.find_half(number) is not None]


def test_the_oldest_go_first() -> None:
    recent = RecentHalves(bytes_max=10 * KIB)
    for number in range(8):
        recent.add_half(number, draft(2 * KIB))  # with its overhead, 3 KiB
    assert kept(recent, 8) == [5, 6, 7]


def test_a_large_one_is_not_kept_and_drives_out_no_other() -> None:
    recent = RecentHalves()
    recent.add_half(0, draft(KIB))
    recent.add_half(1, draft(65 * KIB))
    assert kept(recent, 2) == [0]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3 * KIB)), max_size=60))
def test_what_ends_makes_room_for_others(steps: list[tuple[bool, int]]) -> None:
    bytes_max, recent, model = 10 * KIB, RecentHalves(bytes_max=10 * KIB), dict[int, int]()
    for number, (ends, size) in enumerate(steps):
        if ends and model:
            oldest = next(iter(model))
            recent.drop_half(oldest)
            recent.drop_half(oldest)  # it may have been dropped before
            del model[oldest]
        recent.add_half(number, draft(size))
        model[number] = size + KIB
        while sum(model.values()) > bytes_max:
            del model[next(iter(model))]
        assert kept(recent, len(steps)) == list(model)
