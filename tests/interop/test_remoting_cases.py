"""What users of RocketMQ 4 rely on beyond the ordinary, with Java's client of 4.9.8: broadcasts over restarts, places
in a queue, filters, failures of listeners, checks of transactions, batches, large bodies, and what is refused."""

import asyncio
import zlib
from collections import Counter

import pytest

from ternmq import SimpleConsumer
from tests.interop.remoting.running import Remoting, numbered, only_once
from tests.support.remoting_client import RemotingClient

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]

BROKER = "broker-0"
MIB = 1024 * 1024
# The client compresses what is so large, and what can't be compressed becomes larger by that.
WHOLE = 4 * MIB - 4096
ILLEGAL, UNKNOWN_TOPIC, BAD_EXPRESSION = "13", "10005", "23"
TOPIC_BYTES_MAX = 127
# Where clients ask for name servers if they are given none.
NOBODY = "-Drocketmq.namesrv.domain=127.0.0.1"


async def read_dead_letters(remoting: Remoting, group: str) -> list[bytes]:
    """Return the first dead letters of a group."""
    async with SimpleConsumer(remoting.stack.grpc, f"readers-of-{group}", {f"%DLQ%{group}": "*"}) as consumer:
        views = await consumer.receive()
        while not views:
            views = await consumer.receive()
        await consumer.ack(views)
    return [view.body for view in views]


async def test_a_topic_of_an_operator_has_the_queues_and_rights_that_it_was_given(remoting: Remoting) -> None:
    async with await RemotingClient.connect(remoting.stack.addresses["remoting"]) as operator:

        async def change(perm: int) -> None:
            """Do what mqadmin's updateTopic and updateTopicPerm do."""
            queues = {"readQueueNums": 3, "writeQueueNums": 3, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0}
            names = {"topic": "cases-made", "defaultTopic": "TBW102", "order": "false"}
            changed = await operator.call(17, perm=perm, **names, **queues)
            assert changed.code == 0, changed.remark

        await change(6)
        async with remoting.driver("java4") as driver:
            await driver.run("producer", name="p", group="producers")
            for number in range(30):
                await driver.run("send", name="p", topic="cases-made", body=str(number))
            await driver.run("push", name="c", group="cases-made", topic="cases-made")
            got = await driver.until_got("c", 30)
            assert driver.bodies("c") == only_once(30)
            assert {event["queue"] for event in got} == {"0", "1", "2"}
            await change(4)
            # A client looks for changes of its routes every half a minute; another one asks at once.
            await driver.run("producer", name="p4", group="producers")
            refused = await driver.attempt("send", name="p4", topic="cases-made", body="refused")
            assert refused["code"] == UNKNOWN_TOPIC
            await driver.run("push", name="c4", group="cases-made-others", topic="cases-made")
            await driver.until_got("c4", 30)
            assert driver.bodies("c4") == only_once(30)
            await change(6)
            await driver.run("producer", name="p6", group="producers")
            await driver.run("send", name="p6", topic="cases-made", body="again")
            await driver.until_got("c", 31)
            assert driver.bodies("c") == only_once(30) + Counter(["again"])


async def test_a_broadcasting_member_goes_on_from_where_it_stood_and_retries_nothing(remoting: Remoting) -> None:
    topic = await remoting.create_topic("cases-broadcast")
    member = {"group": "cases-broadcast", "topic": topic, "model": "BROADCASTING"}
    async with remoting.driver("java4") as driver:
        await driver.run("producer", name="p", group="producers")
        await driver.run("send", name="p", topic=topic, body=numbered(8, "before-"))
        for name in ("first", "second"):
            await driver.run("push", name=name, **member)
        await driver.run("push", name="late", **member, **{"from": "CONSUME_FROM_LAST_OFFSET"})
        for name in ("first", "second"):
            await driver.until_got(name, 8)
        await driver.run("send", name="p", topic=topic, body=["fail-1-a", *numbered(8, "then-")])
        for name in ("first", "second"):
            await driver.until_got(name, 17)
        await driver.run("stop", name="first")
        await driver.run("send", name="p", topic=topic, body=numbered(8, "meanwhile-"))
        await driver.run("push", name="again", instance="first", **member)
        meanwhile = only_once(8, "meanwhile-")
        await driver.until(lambda _: driver.bodies("again") >= meanwhile, "what was sent meanwhile")
        await driver.until_got("second", 25)
        # A listener that had not returned when its consumer stopped gets its messages again.
        assert driver.bodies("again") <= meanwhile + only_once(8, "then-") + Counter(["fail-1-a"])
        assert driver.bodies("second") == (
            only_once(8, "before-") + only_once(8, "then-") + meanwhile + Counter(["fail-1-a"])
        )
        # It may have found its queues only after the first of what followed.
        assert driver.bodies("late") <= driver.bodies("second") - only_once(8, "before-")


async def test_places_in_a_queue_are_found_by_time_and_kept(remoting: Remoting) -> None:
    topic, group = await remoting.create_topic("cases-places", queues=1), "cases-places"
    place: dict[str, str | int] = {"group": group, "topic": topic, "broker": BROKER, "queue": 0}
    async with remoting.driver("java4") as driver:
        empty = await driver.run("offsets", name="q0", time=0, **place)
        assert (empty["min"], empty["max"], empty["found"]) == ("0", "0", "0")
        await driver.run("producer", name="p", group="producers")
        for part in range(2):
            for number in range(10):
                sent = await driver.run(
                    "send", name="p", topic=topic, body=f"{part}-{number}", mode="queue", broker=BROKER, queue=0
                )
                assert (sent["queue"], sent["offset"]) == ("0", str(10 * part + number))
            await asyncio.sleep(0.02)  # so that no two parts have the same millisecond
        pulled = await driver.run("pull", name="r", group=group, topic=topic)
        assert pulled["count"] == "20"
        stored = [int(event["stored"]) for event in driver.got("r")]
        for time, wanted in ((0, 0), (stored[0], 0), (stored[9] + 1, 10), (stored[10], 10), (stored[19] + 60_000, 20)):
            found = await driver.run("offsets", name=f"q-{time}", time=time, **place)
            assert found["found"] == str(wanted), (time, stored)
        assert (found["min"], found["max"], found["committed"]) == ("0", "20", "20")
        again = await driver.run("pull", name="none", group=group, topic=topic)
        assert again["count"] == "0"


FILTERS = {
    "tags=red": {"red-1", "red-9"},
    "tags= red||blue ": {"red-1", "red-9", "blue-5"},
    "tags=green": set[str](),
    "tags=*": {"red-1", "red-9", "blue-5", "plain"},
    "sql=size BETWEEN 2 AND 9": {"red-9", "blue-5"},
    "sql=size > 4 AND size <= 5": {"blue-5"},
    "sql=color IN ('red', 'green')": {"red-1", "red-9"},
    "sql=color IS NULL": {"plain"},
    "sql=color IS NOT NULL AND NOT (TAGS = 'blue')": {"red-1", "red-9"},
    "sql=TAGS = 'blue' OR size = 1": {"blue-5", "red-1"},
    "sql=TRUE": {"red-1", "red-9", "blue-5", "plain"},
}


async def test_filters_pass_what_they_say(remoting: Remoting) -> None:
    topic = await remoting.create_topic("cases-filters")
    async with remoting.driver("java4") as driver:
        await driver.run("producer", name="p", group="producers")
        for body in ("red-1", "red-9", "blue-5"):
            color, size = body.split("-")
            pairs = {"tag": color, "property_color": color, "property_size": size}
            await driver.run("send", name="p", topic=topic, body=body, **pairs)
        await driver.run("send", name="p", topic=topic, body="plain")
        for number, each in enumerate(FILTERS):
            kind, _, text = each.partition("=")
            await driver.run("push", name=each, group=f"cases-filters-{number}", topic=topic, **{kind: text})
        for each, wanted in FILTERS.items():
            await driver.until_got(each, len(wanted))
        for each, wanted in FILTERS.items():
            assert driver.bodies(each) == Counter(wanted), each
        broken = await driver.attempt("push", name="broken", group="cases-broken", topic=topic, sql="size > AND")
        assert broken["code"] == BAD_EXPRESSION


async def test_what_a_listener_fails_on_comes_again_as_it_was(remoting: Remoting) -> None:
    topic, group = await remoting.create_topic("cases-failing"), "cases-failing"
    async with remoting.driver("java4") as driver:
        await driver.run("producer", name="p", group="producers")
        await driver.run("push", name="c", group=group, topic=topic, tags="red", delay_level=1)
        pairs = {"tag": "red", "keys": "a b", "property_color": "ü"}
        await driver.run("send", name="p", topic=topic, body=["throw-a", "fail-2-b"], **pairs)
        got = await driver.until_got("c", 5)
        assert driver.bodies("c") == Counter({"throw-a": 2, "fail-2-b": 3})
        times = {body: [each["times"] for each in got if each.body == body] for body in ("throw-a", "fail-2-b")}
        assert times == {"throw-a": ["0", "1"], "fail-2-b": ["0", "1", "2"]}
        for event in got:
            assert (event["topic"], event["tag"], event["keys"]) == (topic, "red", "a b")
            assert event.properties["color"] == "ü"
        assert len({event["id"] for event in got if event.body == "throw-a"}) == 1


async def test_a_listener_may_give_a_message_up_at_once(remoting: Remoting) -> None:
    topic, group = await remoting.create_topic("cases-given-up"), "cases-given-up"
    async with remoting.driver("java4") as driver:
        await driver.run("producer", name="p", group="producers")
        await driver.run("push", name="c", group=group, topic=topic, delay_level=-1)
        await driver.run("send", name="p", topic=topic, body="poison-a")
        await driver.until_got("c", 1)
        assert await read_dead_letters(remoting, group) == [b"poison-a"]
        assert driver.bodies("c") == Counter(["poison-a"])


async def test_an_orderly_queue_goes_on_after_a_message_ran_out_of_tries(remoting: Remoting) -> None:
    topic, group = await remoting.create_topic("cases-orderly", queues=1), "cases-orderly"
    async with remoting.driver("java4") as driver:
        await driver.run("producer", name="p", group="producers")
        await driver.run("send", name="p", topic=topic, body=["a", "poison-b", "c"])
        await driver.run("push", name="c", group=group, topic=topic, orderly="yes", max_times=2)
        await driver.until_got("c", 5)
        assert [event.body for event in driver.got("c")] == ["a", "poison-b", "poison-b", "poison-b", "c"]
        assert await read_dead_letters(remoting, group) == [b"poison-b"]


async def test_a_transaction_without_an_end_is_checked(remoting: Remoting) -> None:
    topic = await remoting.create_topic("cases-transactions")
    async with remoting.driver("java4") as driver:
        await driver.run("producer", name="p", group="cases-transactions", transactions="yes")
        pairs = {"tag": "red", "keys": "k", "property_color": "ü"}
        ids = dict[str, str]()
        for body in ("check-commit", "check-rollback"):
            sent = await driver.run("transaction", name="p", topic=topic, body=body, **pairs)
            assert (sent["status"], sent["state"]) == ("SEND_OK", "UNKNOW")
            ids[body] = sent["id"]
        # The client takes delays out of transactions.
        await driver.run("transaction", name="p", topic=topic, body="commit-now", delay=18)
        await driver.run("push", name="c", group="cases-transactions", topic=topic)
        got = await driver.until_got("c", 2)
        await driver.until(
            lambda events: {e.body for e in events if e["event"] == "checked"} >= ids.keys(), "both checks"
        )
        assert driver.bodies("c") == Counter(["commit-now", "check-commit"])
        checks = [event for event in driver.events if event["event"] == "checked"]
        assert {event.body: event["transaction"] for event in checks} == ids
        [checked] = [event for event in got if event.body == "check-commit"]
        assert (checked["id"], checked["tag"], checked["keys"]) == (ids["check-commit"], "red", "k")
        assert checked.properties["color"] == "ü"


async def test_messages_of_a_batch_have_parts_of_their_own(remoting: Remoting) -> None:
    topic = await remoting.create_topic("cases-batch")
    async with remoting.driver("java4") as driver:
        await driver.run("producer", name="p", group="producers")
        sent = await driver.run("batch", name="p", topic=topic, body=numbered(3), tags=["red", "blue", "red"])
        assert (sent["status"], len(sent["id"].split(","))) == ("SEND_OK", 3)
        await driver.run("push", name="c", group="cases-batch", topic=topic)
        await driver.run("push", name="red", group="cases-batch-red", topic=topic, tags="red")
        got = sorted(await driver.until_got("c", 3), key=lambda event: event.body)
        await driver.until_got("red", 2)
        assert [(event["tag"], event["keys"], event.properties["number"]) for event in got] == [
            (("red", "blue")[number % 2], f"key-{number}", str(number)) for number in range(3)
        ]
        assert {event["queue"] for event in got} == {sent["queue"]}
        assert ",".join(event["id"] for event in got) == sent["id"]
        assert driver.bodies("red") == Counter(["0", "2"])
        # Batches of several topics and of delayed messages are refused by the client.
        mixed = await driver.attempt("batch", name="p", body=["a", "b"], topic=topic, topics=[topic, "cases-other"])
        delayed = await driver.attempt("batch", name="p", topic=topic, body=["a", "b"], delay=1)
        for refused in (mixed, delayed):
            assert "Failed to initiate the MessageBatch" in refused["error"]
        assert driver.bodies("c") == only_once(3)


async def test_bodies_up_to_the_limit_come_whole_and_larger_ones_are_refused(remoting: Remoting) -> None:
    topic = await remoting.create_topic("cases-large")
    async with remoting.driver("java4") as driver:
        await driver.run("producer", name="p", group="producers")
        await driver.run("producer", name="lavish", group="producers", max_bytes=32 * MIB)
        await driver.run("push", name="c", group="cases-large", topic=topic)
        for mode, size in (("sync", WHOLE), ("async", 3 * MIB), ("oneway", 2 * MIB), ("sync", MIB + 1)):
            await driver.run("send", name="p", topic=topic, mode=mode, body=f"{mode}-{size}", bytes=size)
        text = "köner " * (MIB // 4)  # which the client compresses
        await driver.run("send", name="p", topic=topic, body=text)
        got = await driver.until_got("c", 5)
        sizes = {int(event["bytes"]) for event in got}
        assert sizes == {WHOLE, 3 * MIB, 2 * MIB, MIB + 1, len(text.encode())}
        [compressed] = [event for event in got if int(event["bytes"]) == len(text.encode())]
        assert int(compressed["crc"]) == zlib.crc32(text.encode()) & 0x7FFFFFFF
        # Its own client refuses the first one, and the server the others.
        for name, size in (("p", 4 * MIB + 1), ("lavish", 4 * MIB + 1), ("lavish", 8 * MIB)):
            refused = await driver.attempt("send", name=name, topic=topic, body="x", bytes=size)
            assert refused["code"] == ILLEGAL, refused
        empty = await driver.attempt("send", name="p", topic=topic, body="")
        assert empty["code"] == ILLEGAL
        # The connection is as good as before.
        await driver.run("send", name="lavish", topic=topic, body="last")
        # The limit is that of each message, so that a batch may have more.
        await driver.run("batch", name="lavish", topic=topic, body=numbered(5), bytes=MIB)
        got = await driver.until_got("c", 11)
        assert driver.bodies("c")["last"] == 1
        assert [int(event["bytes"]) for event in got].count(MIB) == 5


async def test_a_client_without_its_name_server_gets_an_error_that_names_it(remoting: Remoting) -> None:
    here, nowhere = remoting.stack.addresses["remoting"], "127.0.0.1:1"
    topic = await remoting.create_topic("cases-servers")
    async with remoting.driver("java4") as driver:
        # Of several name servers one is enough.
        await driver.run("producer", name="both", group="producers", address=f"{nowhere};{here}")
        await driver.run("send", name="both", topic=topic, body="sent")
        await driver.run("push", name="c", group="cases-servers", topic=topic, address=f"{nowhere};{here}")
        await driver.until_got("c", 1)
        await driver.run("producer", name="nowhere", group="producers", address=nowhere)
        refused = await driver.attempt("send", name="nowhere", topic=topic, body="x")
        assert f"RemotingConnectException: connect to [{nowhere}] failed" in refused["error"]
    async with remoting.driver("java4", options=[NOBODY]) as driver:
        await driver.run("producer", name="p", group="producers", address="none")
        refused = await driver.attempt("send", name="p", topic=topic, body="x")
        assert "RemotingConnectException: connect to null failed" in refused["error"]


async def test_names_that_are_none_are_refused_and_odd_ones_work(remoting: Remoting) -> None:
    topic = await remoting.create_topic("cases-names")
    async with remoting.driver("java4") as driver:
        for number, group in enumerate(("", "two words", "x" * 256, "DEFAULT_PRODUCER", "dot.dot")):
            refused = await driver.attempt("producer", name=f"p{number}", group=group)
            assert refused["error"].startswith("org.apache.rocketmq.client.exception.MQClientException"), group
        for number, group in enumerate(("", "two words", "x" * 256, "DEFAULT_CONSUMER")):
            refused = await driver.attempt("push", name=f"c{number}", group=group, topic=topic)
            assert refused["error"].startswith("org.apache.rocketmq.client.exception.MQClientException"), group
        await driver.run("producer", name="p", instance="shared", group="cases-names")
        again = await driver.attempt("producer", name="again", instance="shared", group="cases-names")
        assert "The producer group[cases-names] has been created before" in again["error"]
        for name in ("", "two words", "x" * (TOPIC_BYTES_MAX + 1), "SCHEDULE_TOPIC_XXXX"):
            refused = await driver.attempt("send", name="p", topic=name, body="x")
            assert refused["error"].startswith("org.apache.rocketmq.client.exception.MQClientException"), name
        longest = "y" * TOPIC_BYTES_MAX
        for each in (longest, "-_%|09"):
            await driver.run("send", name="p", topic=each, body="odd")
            await driver.run("push", name=each, group=f"g{each}"[:100], topic=each)
            await driver.until_got(each, 1)
            assert driver.bodies(each) == Counter(["odd"])
