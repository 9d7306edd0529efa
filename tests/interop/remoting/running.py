"""The programs of this folder as running processes, and a server with the remoting protocol that they work with."""

import asyncio
import itertools
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, urlencode

from ternmq import Admin
from tests.interop.processes import Processes
from tests.interop.programs import Programs
from tests.support.maven import jars
from tests.support.ports import free_address
from tests.support.stack import Stack

PROGRAMS = Programs("remoting", Path(__file__).parent)
JAVA_5 = "5.5.0"
# Otherwise a client gives up a connection after 3 s, which a new virtual machine may need on a busy computer.
PATIENT = "-Dcom.rocketmq.remoting.client.connect.timeout=30000"
JAVA_OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", PATIENT)
CLIENTS = ("java4", "java5", "go4", "python4", "node4")
"""The programs; `java5` is that of `java4` with the libraries of RocketMQ 5."""
NAMES_SHOWN = "color,city"
"""Properties that the program of Python prints: its client can't list them."""

Value = str | int | Sequence[str]


class Event(dict[str, str]):
    """One line of a program: `event` is what happened."""

    @classmethod
    def parse(cls, line: bytes) -> Self:
        return cls(parse_qsl(line.decode().rstrip("\n"), keep_blank_values=True))

    @property
    def body(self) -> str:
        return self["body"]

    @property
    def properties(self) -> dict[str, str]:
        return {name[2:]: value for name, value in self.items() if name.startswith("p.")}


class Driver(Processes[Event]):
    """A program that carries out commands, one by one: `async with Driver(command, home) as driver`."""

    def __init__(self, command: Sequence[str], home: Path, environment: dict[str, str] | None = None) -> None:
        super().__init__([command], home, Event.parse, {"DRIVER_PROPERTIES": NAMES_SHOWN, **(environment or {})})
        self._numbers = itertools.count(1)

    async def run(self, operation: str, /, **pairs: Value) -> Event:
        """Have a command carried out, and return its answer; it must not fail."""
        answer = await self.attempt(operation, **pairs)
        assert "error" not in answer, f"{operation} {pairs}: {answer}\n{self.report()}"
        return answer

    async def attempt(self, operation: str, /, **pairs: Value) -> Event:
        """Have a command carried out, and return its answer, which has `error` if it failed."""
        number = str(next(self._numbers))
        command = {"op": operation, "number": number, **pairs}
        named = {name.replace("property_", "p."): value for name, value in command.items()}
        await self.tell(urlencode(named, doseq=True))
        await self.until(lambda events: find_answer(events, number) is not None, f"{operation} {pairs}")
        found = find_answer(self.events, number)
        assert found is not None
        return found

    def got(self, consumer: str) -> list[Event]:
        """The messages that the consumer of that name has got, in order."""
        return [event for event in self.events if event["event"] == "got" and event["name"] == consumer]

    def bodies(self, consumer: str) -> Counter[str]:
        """How often the consumer has got each body."""
        return Counter(event.body for event in self.got(consumer))

    async def until_got(self, consumer: str, count: int) -> list[Event]:
        """Wait until the consumer has got so many messages, and return them."""
        await self.until(lambda _: len(self.got(consumer)) >= count, f"{count} messages for {consumer}")
        return self.got(consumer)


def find_answer(events: Sequence[Event], number: str) -> Event | None:
    """The answer to the command of that number."""
    return next((event for event in reversed(events) if event.get("number") == number), None)


class RemotingStack(Stack):
    """A running `ternmq up` with the remoting protocol."""

    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder, *options)
        serve_remoting(self)


def serve_remoting(stack: Stack) -> None:
    """Have a stack that was not started yet serve the remoting protocol on a free port."""
    stack.addresses["remoting"] = free_address()


class Remoting:
    """A server, and programs that work with it."""

    def __init__(self, stack: Stack, home: Path) -> None:
        """`stack` serves `remoting` beside what it serves anyway."""
        self.stack = stack
        self._home = home
        self._numbers = itertools.count(1)

    async def run_command(self, *words: str) -> str:
        """Run the command `ternmq` with these words, and return what it prints."""
        program = [sys.executable, "-m", "ternmq_command.main", *words, "--endpoint", self.stack.grpc]
        process = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
        output, _ = await process.communicate()
        assert process.returncode == 0, words
        return output.decode()

    async def create_topic(self, topic: str, *, queues: int = 4) -> str:
        """Create a topic for messages of all types."""
        async with Admin(self.stack.grpc) as admin:
            await admin.create_topic(topic, "mixed", queues)
        return topic

    def driver(
        self, client: str, *, options: Sequence[str] = (), environment: dict[str, str] | None = None, address: str = ""
    ) -> Driver:
        """A program of that client. `options` are for Java's virtual machine."""
        home = self._home / f"{client}-{next(self._numbers)}"
        command = [*command_of(client, home, options=options), address or self.stack.addresses["remoting"]]
        return Driver(command, home, environment)


def command_of(client: str, home: Path, *, options: Sequence[str] = ()) -> list[str]:
    """How to start the program of a client."""
    match client:
        case "java4" | "java5":
            folder = PROGRAMS.build("java4")
            return java_command(folder, client, "driver.Driver", home, options=options)
        case "go4":
            return [f"{PROGRAMS.build(client)}/program"]
        case "node4":
            return ["node", f"{PROGRAMS.build(client)}/driver.cjs"]
        case _:
            folder = PROGRAMS.build(client)
            return [f"{folder}/venv/bin/python", f"{folder}/driver.py"]


def java_command(folder: Path, client: str, main: str, home: Path, *, options: Sequence[str] = ()) -> list[str]:
    """How to start the Java program that was built in `folder`, with the libraries of RocketMQ 4 or 5."""
    libraries = folder / "target" / "lib"
    if client == "java5":
        libraries = client_jars(JAVA_5)
    # Java takes the home folder from the user database, not from the environment. The program's archive names the
    # libraries of RocketMQ 4, which would come first.
    java = ["java", *JAVA_OPTIONS, f"-Duser.home={home}", *options]
    return [*java, "-cp", f"{folder}/target/classes:{libraries}/*", main]


def client_jars(version: str) -> Path:
    """The folder with Java's client of that version and what it needs."""
    return jars(f"rocketmq-client-{version}", [f"org.apache.rocketmq:rocketmq-client:{version}"])


def only_once(count: int, prefix: str = "") -> Counter[str]:
    """Numbered bodies, each once."""
    return Counter(f"{prefix}{number}" for number in range(count))


def numbered(count: int, prefix: str = "") -> list[str]:
    """Numbered bodies."""
    return [f"{prefix}{number}" for number in range(count)]
