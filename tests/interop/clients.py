"""The programs of the official clients, in all languages, and a server that they work with."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

from tests.interop.consumers.running import Consumers
from tests.interop.producers.running import Producer
from tests.interop.programs import EXAMPLES, Programs

LANGUAGES = ("go", "java", "node", "python")
ONE_ADDRESS = ("node",)
"""Their clients can't be given several addresses: `a:1;b:2` is a name to them that nobody resolves."""
CONSUMERS = Programs("consumers", EXAMPLES, Path(__file__).with_name("consumers"))
PRODUCERS = Programs("producers", EXAMPLES, Path(__file__).with_name("producers"))

T = TypeVar("T")


def build_all() -> None:
    """Build the programs of all languages, so that no deadline of a test runs meanwhile."""
    for language in LANGUAGES:
        CONSUMERS.build(language)
        PRODUCERS.build(language)


class Clients:
    """Programs that work with the server at `endpoint`; they are started by `async with`.

    `within` comes before their commands, such as `ip netns exec NAME`.
    """

    def __init__(self, endpoint: str, home: Path, *, within: Sequence[str] = ()) -> None:
        self.endpoint = endpoint
        self._home = home
        self._within = within
        self._numbers = itertools.count()

    def consumers(
        self, *languages: str, kind: str, topic: str, group: str, passing: str = "tag:*", namespace: str = ""
    ) -> Consumers:
        """A consumer for each of these languages."""
        home = self._home / group
        commands = [
            command_of(CONSUMERS.build(language), language, home, name="consumer", java_class="consumer.Consumer")
            for language in languages
        ]
        return Consumers(
            [
                [*self._within, *command, self._endpoint_of(language), kind, topic, group, passing, namespace]
                for language, command in zip(languages, commands, strict=True)
            ],
            home,
        )

    def _endpoint_of(self, language: str) -> str:
        return self.endpoint.partition(";")[0] if language in ONE_ADDRESS else self.endpoint

    @asynccontextmanager
    async def producer(self, language: str, topic: str, *, namespace: str = "") -> AsyncIterator[Producer]:
        """A producer that has started."""
        home = self._home / f"producer-{next(self._numbers)}-{language}"
        command = command_of(PRODUCERS.build(language), language, home, name="producer", java_class="producer.Program")
        async with Producer([*self._within, *command, self._endpoint_of(language), topic, namespace], home) as producer:
            await producer.ready()
            yield producer

    @asynccontextmanager
    async def producers(self, topic: str) -> AsyncIterator[dict[str, Producer]]:
        """One producer of each language, of the same topic."""
        async with AsyncExitStack() as started:
            starting = [started.enter_async_context(self.producer(language, topic)) for language in LANGUAGES]
            yield dict(zip(LANGUAGES, await asyncio.gather(*starting), strict=True))


def command_of(folder: Path, language: str, home: Path, *, name: str, java_class: str) -> list[str]:
    """How to start the program that was built in `folder`."""
    match language:
        case "go":
            return [f"{folder}/program"]
        case "java":
            # Java takes the home folder from the user database, not from the environment.
            options = [f"-Duser.home={home}", "-XX:TieredStopAtLevel=1"]
            return ["java", *options, "-cp", f"{folder}/target/example.jar:{folder}/target/lib/*", java_class]
        case "node":
            return ["node", f"{folder}/{name}.mjs"]
        case "rust":
            return [f"{folder}/target/release/example"]
        case _:
            return [f"{folder}/venv/bin/python", f"{folder}/{name}.py"]


async def in_each(names: Collection[str], check: Callable[[str], Awaitable[T]]) -> dict[str, T]:
    """Check all of them at the same time, and tell of each that failed; what the checks returned, by name."""
    results = await asyncio.gather(*map(check, names), return_exceptions=True)
    found, failures = dict[str, T](), list[BaseException]()
    for name, result in zip(names, results, strict=True):
        if isinstance(result, BaseException):
            result.add_note(f"this was {name}")
            failures.append(result)
        else:
            found[name] = result
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {len(names)} failed", failures)
    return found
