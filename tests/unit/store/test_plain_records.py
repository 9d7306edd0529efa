"""An index that is made anew has what it had before, whatever records the log has, and however it is read."""

from hypothesis import given
from hypothesis import strategies as st

from ternmq_broker.store.index.queue_index import MessageLocation  # noqa: TC001 - for an annotation of a local
from ternmq_broker.store.log.record import RecordKind, RecordOrigin
from ternmq_broker.store.message_store import MessageStore
from ternmq_broker.store.record_drafts import RecordDraft
from ternmq_broker.store.replaying.replay import ReplaySizes
from ternmq_common.shard.model import NewMessage
from ternmq_protos.v2 import definition_pb2
from tests.support.memory_disk import MemoryFolders

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12)
IDS = TEXT | st.integers(100, 200).map(lambda length: "x" * length)
SYSTEMS = st.builds(
    lambda tag, keys, message_id, host: definition_pb2.SystemProperties(
        tag=tag, keys=keys, message_id=message_id, born_host=host
    ),
    st.none() | TEXT,
    st.lists(IDS, max_size=3),
    IDS.filter(bool),
    TEXT,
)
PLACES = st.tuples(st.sampled_from(["orders", "payments", "größe"]), st.integers(0, 2))
Step = tuple[tuple[str, int], list[definition_pb2.SystemProperties], bool]
STEPS = st.lists(st.tuples(PLACES, st.lists(SYSTEMS, min_size=1, max_size=5), st.booleans()), min_size=1, max_size=12)


def stored(folders: MemoryFolders, steps: list[Step]) -> None:
    store = MessageStore(folders, segment_bytes=1500)
    for number, ((topic, queue_id), systems, of_timer) in enumerate(steps):
        incoming = [
            NewMessage(number, each.SerializeToString(), b"rest", (each.message_id, *each.keys)) for each in systems
        ]
        if of_timer:
            drafts = [
                RecordDraft(RecordKind.MESSAGE, topic, queue_id, each, origin=RecordOrigin(0)) for each in incoming
            ]
            store.writer.append_drafts(drafts, number)
        else:
            store.writer.append_batch(topic, queue_id, incoming, number)
        store.log.sync_segments()


def found(store: MessageStore, keys: set[str]) -> dict[object, object]:
    contents: dict[object, object] = {}
    for topic in ("orders", "payments", "größe"):
        for queue_id in range(3):
            first, end = store.indexes.queues.queue_bounds(topic, queue_id)
            located: list[MessageLocation] = []
            while first + len(located) < end:
                located += store.indexes.queues.locate_messages(
                    topic, queue_id, first + len(located), 100, may_block=True
                )
            contents[topic, queue_id] = (first, located)
        for key in keys:
            contents[topic, key] = {record.queue_offset for record in store.reader.find_by_key(topic, key, 1000)}
    return contents


@given(steps=STEPS, window=st.integers(100, 2000), spill=st.integers(1, 30))
def test_an_index_that_is_made_anew_is_as_before(steps: list[Step], window: int, spill: int) -> None:
    folders = MemoryFolders()
    stored(folders, steps)
    keys = {key for _, systems, _ in steps for each in systems for key in (each.message_id, *each.keys)}
    before = MessageStore(folders, segment_bytes=1500)
    expected = found(before, keys)
    before.close()
    for name in [name for name in folders.index.files if name.isdigit()]:
        del folders.index.files[name]
    sizes = ReplaySizes(spill_entries=spill, read_bytes=window)
    again = MessageStore(folders, segment_bytes=1500, replay_sizes=sizes)
    assert found(again, keys) == expected
    assert again.replayed_records == sum(len(systems) for _, systems, _ in steps)
