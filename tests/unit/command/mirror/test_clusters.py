"""What either side says of its queues, and what of it is believed."""

from ternmq_command.calls.remoting_calls import RemotingAccess
from ternmq_command.mirror.positions import Queue
from ternmq_command.mirror.source import Source
from ternmq_command.mirror.target import Target, TargetPlace
from tests.unit.command.source_server import SourceServer


async def test_a_topic_has_the_queues_of_its_route() -> None:
    with SourceServer() as server:
        server.answers[105] = {
            "queueDatas": [
                {"brokerName": "a", "perm": 6, "writeQueueNums": 2},
                {"brokerName": "b", "perm": 4, "writeQueueNums": 1},
                {"brokerName": "c", "perm": "6", "writeQueueNums": 1},
                "nonsense",
            ]
        }
        async with Target(server.address, RemotingAccess()) as target:
            assert await target.find_queues("orders") == [
                TargetPlace(Queue("a", "orders", 0), is_writable=True),
                TargetPlace(Queue("a", "orders", 1), is_writable=True),
                TargetPlace(Queue("b", "orders", 0), is_writable=False),
            ]


async def test_a_source_has_queues_that_consumers_read_and_topics_of_users() -> None:
    with SourceServer() as server:
        topic = {"readQueueNums": 2, "writeQueueNums": 4, "perm": 6}
        names = ("orders", "TBW102", "%RETRY%billing", "%DLQ%billing", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer")
        server.answers[21] = {"topicConfigTable": dict.fromkeys(names, topic)}
        server.answers[201] = {"subscriptionGroupTable": {"billing": {}, "TOOLS_CONSUMER": {}}}
        server.answers[304] = {"topicList": ["SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"]}
        async with Source([server.address], RemotingAccess()) as source:
            await source.refresh()
            assert source.groups == ["billing"]
            assert source.cluster == "DefaultCluster"
            assert source.queues == [
                Queue("broker-a", name, queue_id) for name in ("orders", "%RETRY%billing") for queue_id in (0, 1)
            ]


async def test_a_slave_is_asked_only_if_there_never_was_a_master() -> None:
    with SourceServer() as master, SourceServer() as slave:
        async with Source([master.address], RemotingAccess()) as source:
            only_slave = {"brokerAddrTable": {"broker-a": {"brokerAddrs": {1: slave.address}}}}
            master.answers[106] = only_slave
            await source.refresh()
            assert any(request.code == 21 for request in slave.requests)
            master.answers[106] = {"brokerAddrTable": {"broker-a": {"brokerAddrs": {0: master.address}}}}
            await source.refresh()
            master.answers[106] = only_slave
            slave.requests.clear()
            await source.refresh()
            assert not slave.requests
