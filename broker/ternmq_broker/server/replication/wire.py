"""What replicas of a shard say to each other, on a stream that the follower opens at its leader.

Pieces and frames are those of proxies and brokers (`shard/form.py`). The follower begins with `follow`; the leader
answers with `lead`, or `refused` and the end. With `anew` in `lead` the follower's log begins anew at the place that
`state` says, else it is cut off at `common`; then the follower says `ready`, and from there on gets the journal and the
log, in order, and answers what it hears with `held`. Either end breaks the stream off when it likes.
"""

from msgspec import Struct

from ternmq_broker.store.joining import JoinState
from ternmq_common.ranges import UInt63
from ternmq_common.shard.form import FORM, Note

METHOD = "/ternmq.storage.v1.Storage/Replicate"


class Follow(Struct, frozen=True, gc=False):
    """Who wants to follow: the replica with that store, whose log has these marks, `start` and `end`, all of it
    durable. `epoch` is the leader's as the follower knows it."""

    shard: str
    store_id: str
    epoch: UInt63
    key: UInt63
    marks: list[tuple[UInt63, UInt63]]
    start: UInt63
    end: UInt63
    form: int = FORM


class Lead(Struct, frozen=True, gc=False):
    """The leader of that epoch takes the follower, whose log is the leader's up to `common`; see the module. The
    leader's log begins at `start`: a follower whose disk is full has room again by removing what lies before."""

    epoch: UInt63
    common: UInt63
    state: JoinState | None = None
    start: UInt63 = 0


class Heartbeat(Struct, frozen=True, array_like=True, gc=False):
    """With everything that the leader says: when, by its own clock in seconds; where its log began and ended then, and
    up to where it was acknowledged."""

    asked_s: float
    start: UInt63
    end: UInt63
    acknowledged: UInt63


class LogBytes(Struct, frozen=True, array_like=True, gc=False):
    """Bytes of the log from `position` on, in the segment that begins at `base`; `is_whole`: the last record among them
    is whole."""

    heartbeat: Heartbeat
    base: UInt63
    position: UInt63
    data: bytes
    is_whole: bool = False


class Held(Struct, frozen=True, array_like=True, gc=False):
    """The follower's log is durable below `position`; it had everything that the leader had at `had_all_s`, and has
    heard what the leader said at `heard_s`, by the leader's clock. `promises`: from then on it will not take over for a
    while. `has_room`: it would take messages if it led; one that does not say so is taken to have none.
    `is_damaged`: some of its log is damaged, as far as it knows."""

    position: UInt63
    had_all_s: float
    heard_s: float
    promises: bool
    has_room: bool = False
    is_damaged: bool = False


class WantedLog(Struct, frozen=True, array_like=True, gc=False):
    """Bytes of the log that are damaged where they are asked for; each end of a stream may ask the other."""

    position: UInt63
    size: UInt63


class GivenLog(Struct, frozen=True, array_like=True, gc=False):
    """What was asked for, or its beginning; nothing if it is not there, or not now. Nobody vouches for it: the asker
    has to check it."""

    position: UInt63
    data: bytes


class JournalPart(Struct, frozen=True, array_like=True, gc=False):
    """Lines of the whole consumption journal, which comes in several parts."""

    lines: list[bytes]
    is_last: bool


# Said by followers.
FOLLOW = Note("follow", Follow)
READY = Note("ready", int)
"""The log ends there now, and is durable."""
HELD = Note("held", Held)

UNTAKEN = Note("untaken", int)
"""What the leader sent from that log offset on can't be taken: it may be damaged there."""

# Said by either.
LOG_WANTED = Note("log wanted", WantedLog)
LOG_GIVEN = Note("log given", GivenLog)

# Said by leaders.
LEAD = Note("lead", Lead)
REFUSED = Note("refused", str)
LOG = Note("log", LogBytes)
BEAT = Note("beat", Heartbeat)
WHOLE_JOURNAL = Note("whole journal", JournalPart)
JOURNAL: Note[list[bytes]] = Note("journal", list[bytes])
"""Lines that were added to it since."""
ELECTED = Note("elected", int)
"""The registry has made the follower the leader, with that epoch."""
