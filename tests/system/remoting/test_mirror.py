"""A mirror between two running servers by the remoting protocol: what a copy keeps, and where groups go on."""

import asyncio
import json
import signal
import zlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from ternmq_command.calls.remoting_calls import RemotingAccess
from ternmq_command.mirror.checkpoint import CheckpointFolder
from ternmq_command.mirror.copier import Shared
from ternmq_command.mirror.copies import Ways
from ternmq_command.mirror.mirroring import Mirroring, Wish
from ternmq_command.mirror.source import Source
from ternmq_command.mirror.target import Target
from ternmq_command.terminal.failures import WrongUsage
from ternmq_common.shard.mirror_origin import MIRROR_PROPERTY, parse_origin
from ternmq_common.shard.property_text import read_properties
from ternmq_proxy.services import AnswerLimits
from ternmq_rpc.remoting.message_ids import decode_offset_id
from ternmq_rpc.remoting.message_records import MessageRecord, decode_records
from tests.support.embedded import Embedded, local_settings
from tests.support.mirroring import MirrorProcess
from tests.support.ports import ANY_PORT
from tests.support.remoting_client import RemotingClient
from tests.support.until import until_answered
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def source(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    settings = local_settings(tmp_path_factory.mktemp("source"), remoting=ANY_PORT)
    async with Embedded(settings, AnswerLimits(error_hold_s=0.0)) as running:
        yield running


async def mirror(
    source: Embedded, target: Embedded, topic: str, state: Path | None = None, *, to: str = "west", by: str = "east"
) -> Mirroring:
    notes: list[str] = []
    async with (
        Source([source.remoting], RemotingAccess()) as read,
        Target(target.remoting, RemotingAccess()) as written,
    ):
        shared = Shared(read, written, Ways(source=by, target=to), notes.append)
        asked = Wish(topics=[topic], groups=[f"{topic}*"], target="t", sync_s=0.1, until_caught_up=True)
        if state is None:
            mirroring = Mirroring(shared, asked, None, lambda _: None)
            await mirroring.run()
        else:
            with CheckpointFolder(state) as folder:
                mirroring = Mirroring(shared, asked, folder, lambda _: None)
                await mirroring.run()
    return mirroring


async def create(server: Embedded, topic: str, *, kind: str = "", queues: int = 2) -> None:
    attributes = {"attributes": f"+message.type={kind}"} if kind else {}
    async with await RemotingClient.connect(server.remoting) as client:
        made = await client.call(
            17, topic=topic, defaultTopic="TBW102", readQueueNums=queues, writeQueueNums=queues, perm=6, **attributes
        )
        assert made.code == 0, made.remark


async def read(server: Embedded, topic: str, queue_id: int) -> list[MessageRecord]:
    async with await RemotingClient.connect(server.remoting) as client:
        answer = await client.pull(
            "reader", topic, queue_id=queue_id, maxMsgNums=256, sysFlag=4, subscription="*", expressionType="TAG"
        )
        return decode_records(answer.body)


async def test_a_copy_has_what_the_message_had(server: Embedded, source: Embedded) -> None:
    topic = "mirror-whole"
    await create(source, topic)
    await create(server, topic)
    async with await RemotingClient.connect(source.remoting) as client:
        for number in range(20):
            pairs = {"UNIQ_KEY": f"ID{number}", "TAGS": "t", "KEYS": "k1 k2", "own": f"ä{number}"}
            pairs |= {"__SHARDINGKEY": f"s{number % 3}"} if number % 2 else {}
            await client.send(topic, b"body %d" % number, queue_id=number % 2, properties=pairs, h=number % 3)
    mirroring = await mirror(source, server, topic)
    assert mirroring.shared.counts.copied == 20
    for queue_id in (0, 1):
        before, after = await read(source, topic, queue_id), await read(server, topic, queue_id)
        assert [each.body for each in before] == [each.body for each in after]
        for old, new in zip(before, after, strict=True):
            assert (old.flag, old.born_ms, old.born_host) == (new.flag, new.born_ms, new.born_host)
            kept = read_properties(new.properties)
            origin = parse_origin(kept.pop(MIRROR_PROPERTY))
            assert origin is not None
            assert (origin.topic, origin.queue_id, origin.queue_offset) == (topic, queue_id, old.queue_offset)
            assert origin.clusters == ("east",)
            assert kept == read_properties(old.properties)
    assert (await mirror(source, server, topic)).shared.counts.copied == 0


async def test_a_copy_is_due_and_committed(server: Embedded, source: Embedded) -> None:
    topic = "mirror-delays"
    await create(source, topic, queues=1)
    await create(server, topic, kind="DELAY", queues=1)
    async with await RemotingClient.connect(source.remoting) as client:
        await client.send(topic, b"plain", properties={"UNIQ_KEY": "A"})
        await client.send(topic, b"late", properties={"UNIQ_KEY": "B", "TIMER_DELAY_MS": "300"})
        half = await client.send(
            topic, b"half", group="g", properties={"UNIQ_KEY": "C", "TRAN_MSG": "true", "PGROUP": "g"}
        )
        numbers = {
            "tranStateTableOffset": half.fields["queueOffset"],
            "commitLogOffset": decode_offset_id(half.fields["msgId"])[1],
        }
        ended = await client.call(
            37,
            producerGroup="g",
            commitOrRollback=8,
            msgId="C",
            transactionId="C",
            offsetMsgId=half.fields["msgId"],
            **numbers,
        )
        assert ended.code == 0, ended.remark
        await client.pull("waiter", topic, offset=2, suspend_ms=5000, sysFlag=6, subscription="*", expressionType="TAG")
    await mirror(source, server, topic)
    found = await read(server, topic, 0)
    assert sorted(each.body for each in found) == [b"half", b"late", b"plain"]
    assert not any("TRAN_MSG" in read_properties(each.properties) for each in found)


async def test_a_compressed_body_is_readable(server: Embedded, source: Embedded) -> None:
    topic = "mirror-compressed"
    await create(source, topic, queues=1)
    await create(server, topic, queues=1)
    body = b"many " * 1000
    async with await RemotingClient.connect(source.remoting) as client:
        await client.send(topic, zlib.compress(body), properties={"UNIQ_KEY": "A"}, f=1)
    await mirror(source, server, topic)
    [found] = await read(server, topic, 0)
    assert found.body == body


async def test_a_group_goes_on_behind_what_it_consumed(server: Embedded, source: Embedded) -> None:
    topic, group = "mirror-groups", "mirror-groups-billing"
    await create(source, topic)
    await create(server, topic)
    async with await RemotingClient.connect(source.remoting) as client:
        for number in range(20):
            await client.send(topic, b"body %d" % number, queue_id=number % 2, properties={"UNIQ_KEY": f"G{number}"})
        await make_group(client, group)
        await commit(client, group, topic, 0, 7)
        await commit(client, group, topic, 1, 10)
    async with await RemotingClient.connect(server.remoting) as client:
        await make_group(client, group)
        await mirror(source, server, topic)
        assert [await committed(client, group, topic, each) for each in (0, 1)] == [7, 10]


async def test_a_group_is_not_moved_over_messages_of_the_targets_own_producers(
    server: Embedded, source: Embedded
) -> None:
    topic, group = "mirror-own", "mirror-own-billing"
    await create(source, topic, queues=1)
    await create(server, topic, queues=1)
    async with (
        await RemotingClient.connect(source.remoting) as there,
        await RemotingClient.connect(server.remoting) as here,
    ):
        await make_group(there, group)
        await make_group(here, group)
        for number in range(10):
            await there.send(topic, b"old %d" % number, properties={"UNIQ_KEY": f"O{number}"})
        await mirror(source, server, topic)
        await here.send(topic, b"new", properties={"UNIQ_KEY": "N"})
        for number in range(10, 20):
            await there.send(topic, b"old %d" % number, properties={"UNIQ_KEY": f"O{number}"})
        await commit(there, group, topic, 0, 20)
        await mirror(source, server, topic)
        assert await committed(here, group, topic, 0) == 10
        assert [each.body for each in await read(server, topic, 0)][10] == b"new"


async def test_a_group_with_members_is_left_where_it_is(server: Embedded, source: Embedded) -> None:
    topic, group = "mirror-members", "mirror-members-billing"
    await create(source, topic, queues=1)
    await create(server, topic, queues=1)
    async with (
        await RemotingClient.connect(source.remoting) as there,
        await RemotingClient.connect(server.remoting) as here,
    ):
        await make_group(there, group)
        await here.heartbeat("member", consumers={group: [topic]})
        for number in range(5):
            await there.send(topic, b"body %d" % number, properties={"UNIQ_KEY": f"M{number}"})
        await commit(there, group, topic, 0, 5)
        await mirror(source, server, topic)
        assert (await here.call(14, consumerGroup=group, topic=topic, queueId=0, setZeroIfNotFound=False)).code == 22


async def test_retries_of_a_group_that_left_the_source_are_copied(server: Embedded, source: Embedded) -> None:
    topic, group = "mirror-retries", "mirror-retries-billing"
    await create(source, topic, queues=1)
    await create(server, topic, queues=1)
    async with await RemotingClient.connect(source.remoting) as client:
        await client.send(topic, b"failing", properties={"UNIQ_KEY": "R"})
        await client.heartbeat("failing", consumers={group: [topic]})
        [first] = decode_records((await client.pull(group, topic)).body)
        sent = await client.call(
            36, offset=first.log_offset, group=group, delayLevel=1, originTopic=topic, maxReconsumeTimes=16
        )
        assert sent.code == 0
        assert (await client.pull(group, f"%RETRY%{group}", suspend_ms=10_000)).code == 0
        await commit(client, group, topic, 0, 1)
        await client.call(35, clientID="failing", consumerGroup=group)
    async with await RemotingClient.connect(server.remoting) as client:
        await make_group(client, group)
        assert (await mirror(source, server, topic)).shared.counts.copied == 2
        assert await committed(client, group, topic, 0) == 1
        [retry] = await read(server, f"%RETRY%{group}", 0)
        assert (retry.body, retry.reconsume_times) == (b"failing", 1)
        assert read_properties(retry.properties)["RETRY_TOPIC"] == topic
        assert (await mirror(source, server, topic)).shared.counts.copied == 0


async def test_what_came_from_the_target_does_not_go_back(server: Embedded, source: Embedded) -> None:
    topic = "mirror-loop"
    await create(source, topic, queues=1)
    await create(server, topic, queues=1)
    async with await RemotingClient.connect(source.remoting) as client:
        await client.send(topic, b"there", properties={"UNIQ_KEY": "T"})
    async with await RemotingClient.connect(server.remoting) as client:
        await client.send(topic, b"here", properties={"UNIQ_KEY": "H"})
    await mirror(source, server, topic, by="east", to="west")
    back = await mirror(server, source, topic, by="west", to="east")
    assert (back.shared.counts.copied, back.shared.counts.looped) == (1, 1)
    again = await mirror(source, server, topic, by="east", to="west")
    assert (again.shared.counts.copied, again.shared.counts.looped) == (0, 1)
    assert sorted(each.body for each in await read(server, topic, 0)) == [b"here", b"there"]
    with pytest.raises(WrongUsage, match="--target-name"):
        await mirror(source, server, topic, by="east", to="")


async def test_positions_of_a_file_are_believed_only_if_the_target_agrees(
    server: Embedded, source: Embedded, tmp_path: Path
) -> None:
    topic = "mirror-file"
    await create(source, topic, queues=1)
    await create(server, topic, queues=1)
    async with await RemotingClient.connect(source.remoting) as client:
        for number in range(10):
            await client.send(topic, b"body %d" % number, properties={"UNIQ_KEY": f"F{number}"})
        assert (await mirror(source, server, topic, tmp_path)).shared.counts.copied == 10
        old = (tmp_path / "positions").read_bytes()
        await client.send(topic, b"body 10", properties={"UNIQ_KEY": "F10"})
        assert (await mirror(source, server, topic, tmp_path)).shared.counts.copied == 1
    (tmp_path / "positions").write_bytes(old)  # as a power cut may leave it
    assert (await mirror(source, server, topic, tmp_path)).shared.counts.copied == 0
    (tmp_path / "positions").write_bytes(old.replace(b'"t"', b'"u"'))
    assert (await mirror(source, server, topic, tmp_path)).shared.counts.copied == 0
    assert len(await read(server, topic, 0)) == 11


@pytest.mark.parametrize(("by", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_a_running_mirror_ends_by_a_signal(
    server: Embedded, source: Embedded, tmp_path: Path, by: int, code: int
) -> None:
    topic = f"mirror-process-{code}"
    await create(source, topic, queues=1)
    await create(server, topic, queues=1)
    options = ("--namesrv", source.remoting, "--endpoint", server.grpc, "--remoting", server.remoting, "--topic", topic)
    async with (
        await RemotingClient.connect(source.remoting) as client,
        MirrorProcess((*options, "--state", str(tmp_path)), tmp_path / "log") as running,
    ):
        for number in range(3):
            await client.send(topic, b"body", properties={"UNIQ_KEY": f"P{number}"})
        async with asyncio.timeout(60):
            await until_answered(partial(count_messages, server, topic), 3)
        result = await running.end(by, code=code)
    assert (result["copied"], result["lag"], result["lost"], result["doubles"]) == (3, 0, 0, 0)


async def count_messages(server: Embedded, topic: str) -> int:
    return len(await read(server, topic, 0))


async def make_group(client: RemotingClient, group: str) -> None:
    made = await client.call(
        200, json.dumps({"groupName": group, "consumeEnable": True, "retryMaxTimes": 16, "retryQueueNums": 1}).encode()
    )
    assert made.code == 0, made.remark


async def commit(client: RemotingClient, group: str, topic: str, queue_id: int, offset: int) -> None:
    done = await client.call(15, consumerGroup=group, topic=topic, queueId=queue_id, commitOffset=offset)
    assert done.code == 0, done.remark


async def committed(client: RemotingClient, group: str, topic: str, queue_id: int) -> int:
    answer = await client.call(14, consumerGroup=group, topic=topic, queueId=queue_id, setZeroIfNotFound=False)
    assert answer.code == 0, answer.remark
    return int(answer.fields["offset"])
