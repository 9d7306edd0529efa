"""Remoting and gRPC clients on one topic: what one sends the other reads, and each answers for its own transactions."""

import asyncio

from ternmq_common.shard.property_text import read_properties
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_rpc.remoting.message_records import decode_records
from tests.support.embedded import Embedded, RawClient
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


async def test_a_grpc_consumer_receives_what_a_remoting_producer_sent(server: Embedded) -> None:
    properties = {"UNIQ_KEY": "B1", "TAGS": "tag", "KEYS": "k1 k2", "__SHARDINGKEY": "order-1", "own": "value"}
    async with await RemotingClient.connect(server.remoting) as producer, RawClient(server.grpc) as consumer:
        await producer.send("to-grpc", b"body", queue_id=1, properties=properties, f=0, g=1_700_000_000_123)
        received = await consumer.receive("to-grpc", "to-grpc-group", poll_s=5.0)
        [message] = received.messages
        system = message.system_properties
        assert (message.body, dict(message.user_properties)) == (b"body", {"own": "value"})
        assert (system.message_id, system.tag, list(system.keys)) == ("B1", "tag", ["k1", "k2"])
        assert (system.message_group, system.queue_id) == ("order-1", 1)
        assert (system.message_type, system.born_timestamp.ToMilliseconds()) == (pb.FIFO, 1_700_000_000_123)
        assert await consumer.ack("to-grpc", "to-grpc-group", system.receipt_handle)


async def test_a_remoting_consumer_pulls_what_a_grpc_producer_sent(server: Embedded) -> None:
    async with await RemotingClient.connect(server.remoting) as consumer, RawClient(server.grpc) as producer:
        await consumer.send("from-grpc", b"first", queue_id=0)  # makes the topic, which takes all types
        await producer.send("from-grpc", b"fifo", message_group="order-1", tag="tag", keys=["k"], message_id="G1")
        await consumer.heartbeat("from-grpc-1", consumers={"from-grpc-group": ["from-grpc"]})
        records = [
            record
            for queue_id in range(4)
            for record in decode_records((await consumer.pull("from-grpc-group", "from-grpc", queue_id=queue_id)).body)
        ]
        [record] = [record for record in records if record.body == b"fifo"]
        pairs = read_properties(record.properties)
        expected = {"UNIQ_KEY": "G1", "TAGS": "tag", "KEYS": "k", "__SHARDINGKEY": "order-1"}
        assert expected.items() <= pairs.items()


async def test_each_protocol_is_asked_about_its_own_transactions(server: Embedded) -> None:
    topic, half = "own-halves", {"UNIQ_KEY": "H4", "TRAN_MSG": "true", "PGROUP": "own-halves-group"}
    async with await RemotingClient.connect(server.remoting) as remoting, RawClient(server.grpc) as client:
        await remoting.heartbeat("own-halves-1", producers=("own-halves-group",))
        sent = await remoting.send(topic, b"remoting", properties={**half, "CHECK_IMMUNITY_TIME_IN_SECONDS": "1"})
        assert sent.code == 0
        stream = await client.publish_to(pb.Resource(name=topic))
        recovery = {"orphaned_transaction_recovery_duration": {"seconds": 1}}
        transaction_id = await client.begin_transaction(topic, b"grpc", **recovery)
        asked = await asyncio.wait_for(stream.read(), 30)
        assert asked.recover_orphaned_transaction_command.transaction_id == transaction_id
        check = await asyncio.wait_for(remoting.pushed.get(), 30)
        assert (check.code, check.fields["msgId"]) == (39, "H4")
        assert remoting.pushed.empty()
        stream.cancel()
