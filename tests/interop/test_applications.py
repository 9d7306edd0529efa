"""Applications on published frameworks, which nobody here wrote, do with TernMQ what they do with Apache RocketMQ."""

import asyncio
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.interop.applications.running import Application, create_topics
from tests.interop.remoting.running import JAVA_5, Driver, Event, Remoting, client_jars, command_of, numbered, only_once
from tests.support.maven import jars

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

LEVEL_2_MS, SECONDS_3_MS, LATE_MS = 5000, 3000, 20_000
AGENT = "opentelemetry-javaagent"
AGENT_VERSION = "2.31.1"
AGENT_OPTIONS = (
    "-Dotel.traces.exporter=console",
    "-Dotel.metrics.exporter=none",
    "-Dotel.logs.exporter=none",
    "-Dotel.bsp.schedule.delay=100",
)
SPAN = re.compile(r"'([\w-]+ \w+)' : ([0-9a-f]{32}) ([0-9a-f]{16}) (\w+) ")
LOOKS, LOOK_S = 300, 0.1


def delay_of(event: Event) -> int:
    """After how many milliseconds a message came."""
    return int(event["clock"]) - int(event["born"])


def check_transactions(application: Application) -> None:
    assert application.bodies("transactions") == Counter(["commit-now", "check-commit"])
    assert {event.body for event in application.of("checked")} == {"check-commit", "check-rollback"}


async def test_a_spring_boot_application_works(remoting: Remoting, tmp_path: Path) -> None:
    names = ("orders", "ordered", "delayed", "failing", "objects", "transactions", "requests", "pulled")
    await create_topics(remoting, *(f"spring-{name}" for name in names))
    async with Application("spring", remoting, tmp_path) as application:
        await application.until_sent()
        got = await application.until_got("all", 80)
        for listener, count in (
            *(("red", 30), ("sql", 30), ("ordered", 40), ("delayed", 2), ("failing", 2), ("objects", 1)),
            *(("transactions", 2), ("pull", 20)),
        ):
            await application.until_got(listener, count)
        await application.until(lambda _: len(application.of("checked")) >= 2, "both checks")
    ways = ("sync", "async", "oneway", "batch")
    tagged = {f"{way}-{number}": ("red", "blue")[number % 2] for way in ways[:3] for number in range(20)}
    assert application.bodies("all") == Counter(f"{way}-{number}" for way in ways for number in range(20))
    assert application.bodies("red") == Counter(body for body, tag in tagged.items() if tag == "red")
    assert application.bodies("sql") == Counter(body for body, tag in tagged.items() if tag == "blue")
    for event in got:
        assert event.get("tag") == tagged.get(event.body)
        assert (event["keys"], event["color"], event["times"]) == (f"key-{event.body}", "blau ü", "0")
    stored = {event.body: event for event in application.of("stored")}
    assert {event["status"] for event in stored.values()} == {"SEND_OK"}
    assert {event.body: event["id"] for event in got if event.body in stored} == {
        body: event["id"] for body, event in stored.items()
    }
    assert application.of("answered")[0]["all"] == "true"
    for key in ("a", "b"):
        of_key = [event for event in application.got("ordered") if event.body.startswith(key)]
        assert [event.body for event in of_key] == numbered(20, f"{key}-")
        assert len({event["queue"] for event in of_key}) == 1
    delays = {event.body: delay_of(event) for event in application.got("delayed")}
    assert set(delays) == {"by-level", "by-seconds"}
    assert LEVEL_2_MS - 100 <= delays["by-level"] <= LEVEL_2_MS + LATE_MS
    assert SECONDS_3_MS - 100 <= delays["by-seconds"] <= SECONDS_3_MS + LATE_MS
    assert [event["times"] for event in application.got("failing")] == ["0", "1"]
    assert application.bodies("failing") == Counter({"fails-once": 2})
    assert application.bodies("objects") == Counter(["7 Jäger"])
    assert application.bodies("pull") == only_once(20, "pulled-")
    assert [event.body for event in application.of("reply")] == ["reply to asynchronous question"]
    assert {event.body: event["state"] for event in application.of("transaction")} == {
        "commit-now": "COMMIT_MESSAGE",
        "rollback-now": "ROLLBACK_MESSAGE",
        "check-commit": "UNKNOW",
        "check-rollback": "UNKNOW",
    }
    check_transactions(application)


async def test_a_spring_boot_application_waits_for_a_reply(remoting: Remoting, tmp_path: Path) -> None:
    await create_topics(remoting, "spring-requests")
    # The client of 5.3.1 and 5.3.2, with which the starter comes, takes the end of the send for the reply.
    client = client_jars(JAVA_5)
    async with Application("spring", remoting, tmp_path, "requests", client=client) as application:
        await application.until_sent()
    assert [event.body for event in application.of("reply")] == ["reply to question"]


async def test_a_spring_cloud_stream_application_works(remoting: Remoting, tmp_path: Path) -> None:
    names = ("orders", "words", "ordered", "transactions")
    await create_topics(remoting, *(f"stream-{name}" for name in names))
    async with Application("stream", remoting, tmp_path) as application:
        await application.until_sent()
        got = await application.until_got("all", 41)
        for listener, count in (("red", 10), ("ordered", 20), ("transactions", 2)):
            await application.until_got(listener, count)
        await application.until(lambda _: len(application.of("checked")) >= 2, "both checks")
    # What a function returns goes to the topic of another one.
    assert application.bodies("all") == only_once(20, "order-") + only_once(20, "WORD-") + Counter(["delayed"])
    assert application.bodies("red") == Counter(f"order-{number}" for number in range(0, 20, 2))
    orders = {event.body: event for event in got}
    for number in range(20):
        order = orders[f"order-{number}"]
        assert (order["tag"], order["keys"], order["color"]) == (("red", "blue")[number % 2], f"key-{number}", "blau")
    assert {event["topic"] for event in got} == {"stream-orders"}
    assert LEVEL_2_MS - 100 <= delay_of(orders["delayed"]) <= LEVEL_2_MS + LATE_MS
    assert [event.body for event in application.got("ordered")] == numbered(20, "step-")
    check_transactions(application)


async def test_a_camel_application_works(remoting: Remoting, tmp_path: Path) -> None:
    await create_topics(remoting, *(f"camel-{name}" for name in ("orders", "copies", "failing", "requests", "replies")))
    async with Application("camel", remoting, tmp_path) as application:
        await application.until_sent()
        for listener, count in (("all", 20), ("red", 10), ("copies", 20), ("failing", 1)):
            await application.until_got(listener, count)
    assert application.bodies("all") == application.bodies("copies") == only_once(20, "order-")
    assert application.bodies("red") == Counter(f"order-{number}" for number in range(0, 20, 2))
    for event in application.got("all"):
        number = int(event.body.removeprefix("order-"))
        assert (event["tag"], event["keys"]) == (("red", "blue")[number % 2], f"key-{number}")
        assert (event["topic"], event["times"]) == ("camel-orders", "0")
    assert {event["tag"] for event in application.got("copies")} == {"copied"}
    assert [event.body for event in application.of("reply")] == ["reply to question"]


async def test_the_agent_of_opentelemetry_joins_what_is_consumed_to_what_was_sent(
    remoting: Remoting, tmp_path: Path
) -> None:
    await create_topics(remoting, "traced")
    folder = jars(f"{AGENT}-{AGENT_VERSION}", [], alone=[f"io.opentelemetry.javaagent:{AGENT}:{AGENT_VERSION}"])
    options = (f"-javaagent:{folder}/{AGENT}-{AGENT_VERSION}.jar", *AGENT_OPTIONS)
    command = command_of("java4", tmp_path, options=options)
    async with Driver([*command, remoting.stack.addresses["remoting"]], tmp_path) as driver:
        await driver.run("producer", name="p", group="tracing")
        await driver.run("send", name="p", topic="traced", body=numbered(3))
        await driver.run("push", name="c", group="traced", topic="traced")
        got = await driver.until_got("c", 3)
        spans: list[tuple[str, ...]] = []
        for _ in range(LOOKS):
            spans = SPAN.findall((tmp_path / "0.err").read_text(errors="replace"))
            if len(spans) >= 6:
                break
            await asyncio.sleep(LOOK_S)
    sent = {trace: span for _, trace, span, kind in spans if kind == "PRODUCER"}
    consumed = [trace for _, trace, _, kind in spans if kind == "CONSUMER"]
    assert {name for name, *_ in spans} == {"traced publish", "traced process"}
    assert len(sent) == 3
    assert sorted(consumed) == sorted(sent)
    # The context of the span is a property of the message; it ends with the flags of the trace.
    contexts = {event.properties["traceparent"].rpartition("-")[0] for event in got}
    assert contexts == {f"00-{trace}-{span}" for trace, span in sent.items()}
