"""The messages between replicas of a shard, on a stream that the follower opens at its leader.

Pieces and frames are those of proxies and brokers (`shard/form.py`). The follower begins with `follow`; the leader
answers with `lead`, or `refused` and the end. With `state` in `lead` the follower's log begins again at the place that
it names, else it is cut off at `common`; then the follower sends `ready`, and gets the journal and the log from there
on, in order, and answers with `held`. Either end may break the stream off at any time.
"""

from msgspec import Struct

from ternmq_broker.store.copying.copy_start import JoinState
from ternmq_common.shard.ranges import UInt63
from ternmq_common.shard.shard_frames import FORM, NoteType

METHOD = "/ternmq.storage.v1.Storage/Replicate"


class FollowRequest(Struct, frozen=True, gc=False):
    """The request of a follower: its store, the marks, `start` and `end` of its log, which is all durable.

    `epoch` is the leader's as the follower knows it.
    """

    shard: str
    store_id: str
    epoch: UInt63
    key: UInt63
    marks: list[tuple[UInt63, UInt63]]
    start: UInt63
    end: UInt63
    form: int = FORM


class LeadAnswer(Struct, frozen=True, gc=False):
    """The leader of that epoch accepts the follower, whose log is the leader's up to `common`; see the module.

    The leader's log begins at `start`: a follower whose disk is full frees space by removing what lies before.
    """

    epoch: UInt63
    common: UInt63
    state: JoinState | None = None
    start: UInt63 = 0


class LeaderHeartbeat(Struct, frozen=True, array_like=True, gc=False):
    """The leader's state, which goes along with everything that it sends.

    The time by the leader's clock in seconds; where its log began and ended then, and up to where it was acknowledged.
    """

    sent_s: float
    start: UInt63
    end: UInt63
    acknowledged: UInt63


class LogBytes(Struct, frozen=True, array_like=True, gc=False):
    """Bytes of the log from `position` on, in the segment that begins at `base`.

    `is_whole`: the last record among them is whole.
    """

    heartbeat: LeaderHeartbeat
    base: UInt63
    position: UInt63
    data: bytes
    is_whole: bool = False


class HeldReport(Struct, frozen=True, array_like=True, gc=False):
    """The follower's log is durable below `position`.

    It had all of the leader's log at `had_all_s`, and received the leader's last message at `heard_s`, by the leader's
    clock. `promises`: from then on it will not take over for a while. `has_room`: it would accept messages if it led;
    false if a follower does not send it. `is_damaged`: some of its log is damaged, as far as it knows.
    """

    position: UInt63
    had_all_s: float
    heard_s: float
    promises: bool
    has_room: bool = False
    is_damaged: bool = False


class LogRequest(Struct, frozen=True, array_like=True, gc=False):
    """A request for bytes of the log that are damaged at the sender; either end of a stream may send it."""

    position: UInt63
    size: UInt63


class LogReply(Struct, frozen=True, array_like=True, gc=False):
    """The requested bytes, or their beginning; nothing if they are not there, or not now. The receiver must check
    them."""

    position: UInt63
    data: bytes


class JournalPart(Struct, frozen=True, array_like=True, gc=False):
    """Lines of the whole consumption journal, which comes in several parts."""

    lines: list[bytes]
    is_last: bool


# Sent by followers.
FOLLOW = NoteType("follow", FollowRequest)
READY = NoteType("ready", int)
"""The log ends there now, and is durable."""
HELD = NoteType("held", HeldReport)

UNTAKEN = NoteType("untaken", int)
"""The log from that log offset on can't be taken: it may be damaged at the leader."""

# Sent by either end.
LOG_WANTED = NoteType("log wanted", LogRequest)
LOG_GIVEN = NoteType("log given", LogReply)

# Sent by leaders.
LEAD = NoteType("lead", LeadAnswer)
REFUSED = NoteType("refused", str)
LOG = NoteType("log", LogBytes)
BEAT = NoteType("beat", LeaderHeartbeat)
WHOLE_JOURNAL = NoteType("whole journal", JournalPart)
JOURNAL: NoteType[list[bytes]] = NoteType("journal", list[bytes])
"""Lines that were added to it since."""
ELECTED = NoteType("elected", int)
"""The registry has made the follower the leader, with that epoch."""
