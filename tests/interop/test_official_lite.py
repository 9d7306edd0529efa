"""The lite consumers of the official clients, unmodified: order, failures, suspending, quotas, taking over, offsets.

The programs in `lite/` do what they are told and what the bodies of the messages say; their README has the words. In
each test the clients of all languages work at the same time, each with a LITE topic and a lite group of its own.

What their releases have: lite push consumers Java 5.2.0, Go 5.1.4, Python 5.1.2, Node.js 1.0.8; a lite simple consumer
Python alone; suspending Go and Node.js; offset options Java and Node.js. Java and Go take note of what was taken from
them, and Java tells. Their quirks:

Java     says what it subscribes for the first time after 30 s; leaves the lite topic out of ChangeInvisibleDuration
Go       checks neither names nor quota by itself, and is always FIFO
Python   subscribes the letters of a name, and the name itself with the next sync of all, within 30 s
Node.js  retries by itself in groups that are not FIFO too
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from tests.interop.clients import LANGUAGES, command_of, in_each
from tests.interop.lite.running import LitePrograms, got, kinds, succeeded
from tests.interop.programs import EXAMPLES, Programs
from tests.interop.server import CURVE, MAX_ATTEMPTS, STEPS, Server
from tests.support.embedded import Proto, message
from tests.support.lite import make_lite_group, make_lite_topic
from tests.support.stack import Stack

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

PROGRAMS = Programs("lite", EXAMPLES, Path(__file__).with_name("lite"))
SUSPENDING = ("go", "node")
WITH_OFFSETS = ("java", "node")
ILLEGAL_LITE_TOPIC, QUOTA_EXCEEDED = pb.ILLEGAL_LITE_TOPIC, pb.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
SLACK = 300


@dataclass(frozen=True, slots=True)
class Lite:
    """A LITE topic and a lite group of it, mostly for programs of one language."""

    server: Server
    language: str
    topic: str
    group: str
    home: Path

    def program(self, name: str, *, kind: str = "push") -> LitePrograms:
        """One that starts with the `async with`."""
        return self.programs(name, self.language, kind=kind)

    def programs(self, name: str, *languages: str, kind: str = "push") -> LitePrograms:
        """One of each language."""
        home = self.home / f"{self.group}-{name}"
        commands = [
            command_of(PROGRAMS.build(language), language, home, name="lite", java_class="lite.Lite")
            for language in languages
        ]
        return LitePrograms(
            [[*command, self.server.endpoint, kind, self.topic, self.group] for command in commands], home
        )

    async def send(self, name: str, *bodies: str) -> None:
        """Send to a lite topic, by nobody's client."""
        await self.server.send([message(self.topic, body.encode(), lite_topic=name) for body in bodies])

    async def finished(self) -> None:
        """Return when all messages are acknowledged, or dead letters."""
        await self.server.finished(self.group)


class Made:
    """Makes what programs work with."""

    def __init__(self, server: Server, home: Path) -> None:
        self.server = server
        self._home = home

    async def lite(self, language: str, *, fifo: bool = True, **lite: Proto) -> Lite:
        """A LITE topic and a lite group; `lite` are fields of its lite settings."""
        client = self.server.client
        topic = await make_lite_topic(client)
        # Node.js reads no customized back-off, and then none of the maximum of attempts either.
        backoff = CURVE if language == "node" else STEPS
        settings = {"fifo": fifo, "max_attempts": MAX_ATTEMPTS, "retry_backoff": backoff}
        group = await make_lite_group(client, topic, settings=settings, **lite)
        return Lite(self.server, language, topic, group, self._home)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A server for all tests: no topic and no group has a name of another one."""
    for language in LANGUAGES:
        PROGRAMS.build(language)
    with Stack(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
async def made(stack: Stack, tmp_path: Path) -> AsyncIterator[Made]:
    async with Server(stack, tmp_path) as server:
        yield Made(server, tmp_path)


SHORT_NAMES = ("a", "b", "C", "7", "_")
NAMES = ("a", "7", "with-dash", "with_line", "x" * 64)


@pytest.mark.parametrize("fifo", [True, False])
async def test_what_a_client_sends_to_lite_topics_its_consumer_gets_once_and_in_order(made: Made, fifo: bool) -> None:
    async def check(language: str) -> None:
        lite = await made.lite(language, fifo=fifo)
        names = SHORT_NAMES if language == "python" else NAMES
        sent = {name: [f"{number}-of-{name}" for number in range(12)] for name in names}
        async with lite.program("consumer") as program:
            for number in range(12):
                if number == 6:  # some are there before it subscribes, some come while it waits
                    await program.subscribe(*names)
                for name in names:
                    await program.send(name, sent[name][number])
            for name in names:
                await program.handled(name, *sent[name])
            await lite.finished()
        for name in names:
            found = got(program.events, name)
            assert (found if fifo else sorted(found)) == (sent[name] if fifo else sorted(sent[name]))

    await in_each(LANGUAGES, check)


async def test_who_subscribes_again_goes_on_where_it_was(made: Made) -> None:
    async def check(language: str) -> None:
        lite = await made.lite(language)
        async with lite.program("consumer") as program:
            await program.subscribe("a", "b")
            await lite.send("a", "1", "2")
            await program.handled("a", "1", "2")
            await program.unsubscribe("a")
            await lite.send("a", "3", "4")
            await lite.send("b", "1", "2")
            await program.handled("b", "1", "2")
            await program.subscribe("c")
            await lite.send("c", "1")
            await program.handled("c", "1")
            assert got(program.events, "a") == ["1", "2"]
            await program.subscribe("a")
            await program.handled("a", "3", "4")
            await lite.finished()
        assert got(program.events, "a") == ["1", "2", "3", "4"]

    await in_each(LANGUAGES, check)


async def test_what_fails_comes_again_before_its_followers_and_holds_up_no_other_lite_topic(made: Made) -> None:
    failing, letter = "fail-1-held-1", "poison-3"

    async def check(language: str) -> None:
        lite = await made.lite(language)
        async with lite.program("consumer") as program:
            await program.subscribe("a", "b")
            await lite.send("a", failing)
            await program.sees(lambda event: event.detail == failing, "the message that waits")
            await lite.send("a", "2", letter, "4")
            await lite.send("b", "1", "2", "3")
            await program.handled("b", "1", "2", "3")
            assert got(program.events, "a") == [failing]
            await program.release()
            await program.handled("a", failing, "2", "4")
            await lite.finished()
        assert got(program.events, "a") == [failing, failing, "2", *[letter] * MAX_ATTEMPTS, "4"]
        assert [each.body.decode() for each in await lite.server.dead_letters(lite.group)] == [letter]

    await in_each(LANGUAGES, check)


async def test_without_fifo_too_what_fails_comes_again_and_is_finished_once(made: Made) -> None:
    async def check(language: str) -> None:
        lite = await made.lite(language, fifo=False)
        bodies = ["1", "fail-1-2", "3", "poison-4", "fail-2-5", "6"]
        await lite.send("a", *bodies)
        async with lite.program("consumer") as program:
            await program.subscribe("a")
            await program.handled("a", *(body for body in bodies if body != "poison-4"))
            await lite.finished()
        numbers = {body: got(program.events, "a").count(body) for body in bodies}
        assert numbers == {"1": 1, "fail-1-2": 2, "3": 1, "poison-4": MAX_ATTEMPTS, "fail-2-5": 3, "6": 1}
        assert [each.body.decode() for each in await lite.server.dead_letters(lite.group)] == ["poison-4"]

    await in_each(LANGUAGES, check)


async def test_a_listener_suspends_a_lite_topic_and_no_attempt_is_counted(made: Made) -> None:
    suspended = "suspend-4-1"  # more often than a message may fail

    async def check(language: str) -> None:
        lite = await made.lite(language)
        await lite.send("a", suspended, "2", "3")
        async with lite.program("consumer") as program:
            await program.subscribe("a", "b")
            await program.sees(lambda event: event.kind == "suspended", "the lite topic that waits")
            await lite.send("b", "1", "2")
            await program.handled("b", "1", "2")
            assert set(got(program.events, "a")) == {suspended}
            await program.handled("a", suspended, "2", "3")
            await lite.finished()
        assert got(program.events, "a") == [*[suspended] * 5, "2", "3"]
        assert {event.number for event in program.events if event.kind == "got"} == {1}

    await in_each(SUSPENDING, check)


# What each language makes of a name with a bad character, of one that is too long, of an empty one, and of one name too
# many.
REFUSALS: dict[str, list[tuple[str, int]]] = {
    "go": [
        ("ErrRpcStatus", ILLEGAL_LITE_TOPIC),
        ("ErrRpcStatus", ILLEGAL_LITE_TOPIC),
        ("ErrRpcStatus", ILLEGAL_LITE_TOPIC),
        ("ErrRpcStatus", QUOTA_EXCEEDED),
    ],
    "java": [
        ("BadRequestException", ILLEGAL_LITE_TOPIC),
        ("IllegalArgumentException", 0),
        ("IllegalArgumentException", 0),
        ("LiteSubscriptionQuotaExceededException", QUOTA_EXCEEDED),
    ],
    "node": [("ClientException", ILLEGAL_LITE_TOPIC), ("Error", 0), ("Error", 0), ("ClientException", 429)],
    "python": [
        ("BadRequestException", ILLEGAL_LITE_TOPIC),
        ("IllegalStateException", 0),
        ("IllegalStateException", 0),
        ("LiteSubscriptionQuotaExceededException", QUOTA_EXCEEDED),
    ],
}


async def test_names_that_no_lite_topic_has_and_names_beyond_the_quota_are_refused(
    made: Made,
) -> None:
    async def check(language: str) -> None:
        lite = await made.lite(language, quota=2)
        # All others know the quota from their settings.
        allowed = 2 + SLACK if language == "go" else 2
        async with lite.program("consumer") as program:
            found = [await program.tried("subscribe", name) for name in ("a.b", "x" * 65, "")]
            await program.subscribe(*(f"n{number}" for number in range(allowed)))
            found.append(await program.tried("subscribe", "one-more"))
            assert [event.kind for event in found] == ["refused"] * 4
            assert [(event.detail, event.number) for event in found] == REFUSALS[language]
            sent = await program.tried("send", "a.b", "body")
            assert (sent.kind, sent.number) == ("refused", ILLEGAL_LITE_TOPIC)
            await program.unsubscribe("n0")
            await program.subscribe("one-more")
            await program.send("one-more", "1")
            await program.handled("one-more", "1")

    await in_each(LANGUAGES, check)


async def test_who_subscribes_last_has_an_exclusive_lite_topic(made: Made) -> None:
    async def check(language: str) -> None:
        lite = await made.lite(language, exclusive=True)
        async with lite.program("first") as first, lite.program("second") as second:
            await first.subscribe("a", "b")
            await lite.send("a", "1")
            await first.handled("a", "1")
            await second.subscribe("a")
            await lite.send("a", "2", "3")
            await lite.send("b", "1")
            await second.handled("a", "2", "3")
            await first.handled("b", "1")
            if language == "java":
                assert (await first.topics(), await second.topics()) == ({"b"}, {"a"})
            await lite.finished()
            await first.subscribe("c")
            await lite.send("c", "1")
            await first.handled("c", "1")
        assert (got(first.events, "a"), got(second.events, "a")) == (["1"], ["2", "3"])

    await in_each(LANGUAGES, check)


# Of 0 to 2, and of 0 to 3 when the same is said again.
BEGINNINGS: dict[tuple[str, str], tuple[list[str], list[str]]] = {
    ("last", ""): (["0", "1", "2"], ["3"]),
    ("min", ""): (["0", "1", "2"], ["0", "1", "2", "3"]),
    ("max", ""): ([], []),
    ("offset", "1"): (["1", "2"], ["1", "2", "3"]),
    ("tail", "1"): (["2"], ["3"]),
    ("time", "1"): (["0", "1", "2"], ["0", "1", "2", "3"]),
}


async def test_consumers_of_all_languages_share_lite_topics(made: Made) -> None:
    lite = await made.lite("java")
    names = "abcdefghijklmnopqrst"
    sent = {name: [f"{number}-of-{name}" for number in range(10)] for name in names}
    async with lite.programs("consumers", *LANGUAGES) as programs:
        await programs.subscribe(*sent)
        for number in range(10):
            for name in names:
                await lite.send(name, sent[name][number])
        for name in names:
            await programs.handled(name, *sent[name])
        await lite.finished()
    assert {name: got(programs.events, name) for name in names} == sent


async def test_an_offset_option_says_where_a_consumer_begins(made: Made) -> None:
    async def check(language: str) -> None:
        lite = await made.lite(language)
        async with lite.program("consumer") as program:
            for option, (first, second) in BEGINNINGS.items():
                name = option[0]
                await lite.send(name, "0", "1", "2")
                await program.done("subscribe", name, *option)
                await program.handled(name, *first)
                await lite.finished()
                await program.unsubscribe(name)
                await lite.send(name, "3")
                await program.done("subscribe", name, *option)
                await lite.send(name, "4")
                await program.handled(name, *first, *second, "4")
                assert got(program.events, name) == [*first, *second, "4"]

    await in_each(WITH_OFFSETS, check)


async def test_a_lite_simple_consumer_receives_acknowledges_and_gives_back(made: Made) -> None:
    lite = await made.lite("python")
    await lite.send("a", "1", "fail-1-2", "3", "forget-4", "5")
    async with lite.program("consumer", kind="simple") as program:
        await program.subscribe("a", "b")
        await lite.send("b", "1", "2")
        await program.handled("a", "1", "fail-1-2", "3", "forget-4", "5")
        await program.handled("b", "1", "2")
        await lite.finished()
        await program.unsubscribe("a")
        await lite.send("a", "6")
        await program.send("b", "3")
        await program.handled("b", "3")
    assert kinds(program.events, "fail-1-2") == ["got", "failed", "got", "ok"]
    assert kinds(program.events, "forget-4") == ["got", "forgot", "got", "ok"]
    assert "6" not in got(program.events, "a")


async def test_a_wildcard_group_gets_every_lite_topic(made: Made) -> None:
    async def check(language: str) -> None:
        lite = await made.lite(language, wildcard=True)
        await lite.send("a", "1")
        async with lite.program("consumer") as program:
            if language == "python":  # the others begin by themselves
                await program.done("all")
            await program.handled("a", "1")
            await lite.send("b", "1")
            await program.send("c", "1")
            await program.handled("b", "1")
            await program.handled("c", "1")
            await lite.finished()

    await in_each(LANGUAGES, check)


async def test_consumers_go_on_after_the_server_was_killed(made: Made) -> None:
    lites = {language: await made.lite(language) for language in LANGUAGES}
    programs = {language: lite.program("consumer") for language, lite in lites.items()}

    async def before(language: str) -> None:
        await programs[language].subscribe("a", "b")
        await lites[language].send("a", "1", "2")
        await programs[language].handled("a", "1", "2")
        await lites[language].finished()

    async def after(language: str) -> None:
        await lites[language].send("a", "3", "4")
        await lites[language].send("b", "1")
        await programs[language].handled("b", "1")  # when the client has said again what it subscribes
        # Of what was acknowledged in the last second before the crash some may be held still, and come again.
        await programs[language].handled("a", "3", "4")
        await lites[language].finished()
        assert list(dict.fromkeys(succeeded(programs[language].events, "a"))) == ["1", "2", "3", "4"]
        assert succeeded(programs[language].events, "a")[-2:] == ["3", "4"]

    async with programs["go"], programs["java"], programs["node"], programs["python"]:
        await in_each(LANGUAGES, before)
        await made.server.kill9()
        await made.server.start()
        await in_each(LANGUAGES, after)
