"""What the official clients do with right, wrong and withdrawn credentials, whatever the server is.

Start      Go, Java and Rust refuse to start, with the code. Node.js gives up after three attempts at the route, and
           has the code in its log only. So has Python, which starts, and whose first send finds no route.
Running    who has a route already hears UNAUTHORIZED from the next call itself, in all languages.
Authority  Go and Java take any certificate; the others refuse one of an authority that they were not given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.interop.clients import in_each
from tests.interop.guarded.running import LANGUAGES, Guard, GuardedClient

if TYPE_CHECKING:
    from pathlib import Path

UNAUTHORIZED = "UNAUTHORIZED"
UNAUTHORIZED_NUMBER = "40100"
CHECK_NO_CERTIFICATE = ("go", "java")
# With which step a producer that may not come in fails, and which code the error has.
REFUSED_STARTS = {
    "go": ("producer", UNAUTHORIZED),
    "java": ("producer", UNAUTHORIZED),
    "node": ("producer", ""),
    "python": ("send", ""),
    "rust": ("producer", UNAUTHORIZED),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where clients come to: each language has a group of its own, `group-LANGUAGE`."""

    endpoint: str
    topic: str
    home: Path

    def client(self, language: str, guard: Guard) -> GuardedClient:
        return GuardedClient(language, self.endpoint, self.topic, group_of(language), self.home / language, guard)


def group_of(language: str) -> str:
    return f"group-{language}"


async def check_round(client: GuardedClient, body: str) -> None:
    """Start, send, receive and acknowledge."""
    await client.does("producer")
    await client.does("consumer")
    await client.does("send", body)
    await client.received(body)


async def check_refused_start(language: str, client: GuardedClient) -> None:
    """A client that may not come in says so, as its language does."""
    step, code = await first_failure(client)
    assert (step, code) == REFUSED_STARTS[language], client.report()
    said = client.said()
    assert UNAUTHORIZED in said or UNAUTHORIZED_NUMBER in said, client.report()


async def check_refused_certificate(language: str, client: GuardedClient) -> None:
    """A client that looks at certificates does not come in by one that it does not know."""
    step, code = await first_failure(client)
    assert (step, code) == ("" if language in CHECK_NO_CERTIFICATE else REFUSED_STARTS[language][0], "")
    assert UNAUTHORIZED_NUMBER not in client.said()


async def first_failure(client: GuardedClient) -> tuple[str, str]:
    """The first step of a producer that fails, and the code of its error; nothing if it can send."""
    for words in (("producer",), ("send", "refused")):
        outcome = (await client.tried(*words))[-1]
        if outcome.error:
            return outcome.step, outcome.code
    return "", ""


async def check_refused_now(client: GuardedClient) -> None:
    """A client that has been served is not any more, neither as a producer nor as a consumer."""
    for words in (("send", "refused"), ("receive",)):
        outcome = (await client.tried(*words))[-1]
        assert outcome.code == UNAUTHORIZED, client.report()


async def check_each_served(place: Place, guard: Guard) -> None:
    """The clients of all languages, each with a message of its own."""

    async def check(language: str) -> None:
        async with place.client(language, guard) as client:
            await check_round(client, f"from-{language}")

    await in_each(LANGUAGES, check)


async def check_each_refused(place: Place, guard: Guard) -> None:
    async def check(language: str) -> None:
        async with place.client(language, guard) as client:
            await check_refused_start(language, client)

    await in_each(LANGUAGES, check)


async def check_each_refuses_certificate(place: Place, guard: Guard) -> None:
    async def check(language: str) -> None:
        async with place.client(language, guard) as client:
            await check_refused_certificate(language, client)

    await in_each(LANGUAGES, check)
