"""Guarded programs as running processes: with which TLS and credentials, what they are told, what became of it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ternmq_protos.v2 import definition_pb2 as pb
from tests.interop.clients import command_of
from tests.interop.processes import DEADLINE_S, Processes
from tests.interop.programs import EXAMPLES, Programs

if TYPE_CHECKING:
    from collections.abc import Sequence

LANGUAGES = ("go", "java", "node", "python", "rust")
PROGRAMS = Programs("guarded", EXAMPLES, Path(__file__).parent)
# Each language has its own way to a certificate authority that the system does not know; Go and Java check none.
ROOTS = ("NODE_EXTRA_CA_CERTS", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "SSL_CERT_FILE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """How a client comes: with TLS if `ca` is a file, else plain; signed if there is an access key; from a machine of
    that time zone."""

    ca: Path | None = None
    access_key: str = ""
    secret: str = ""
    zone: str = "UTC"

    def environment(self) -> dict[str, str]:
        roots = {} if self.ca is None else dict.fromkeys(ROOTS, str(self.ca))
        tls = "off" if self.ca is None else "on"
        return {"TLS": tls, "ACCESS_KEY": self.access_key, "ACCESS_SECRET": self.secret, "TZ": self.zone, **roots}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a step. `code` is the name of the status code; OK, or empty if the client has said none."""

    step: str
    body: str
    code: str
    error: str

    @classmethod
    def parse(cls, line: bytes) -> Self:
        found = json.loads(line)
        code, error = found["code"], found["error"]
        # Most clients know its number, one its name.
        name = pb.Code.Name(code) if isinstance(code, int) and code else code or ""
        return cls(found["step"], found["body"], name if error else "OK", error)


class GuardedClient(Processes[Outcome]):
    """One running program. A command is given when the one before it is done."""

    def __init__(self, language: str, endpoint: str, topic: str, group: str, home: Path, guard: Guard) -> None:
        command = command_of(PROGRAMS.build(language), language, home, name="guarded", java_class="guarded.Guarded")
        super().__init__([[*command, endpoint, topic, group]], home, Outcome.parse, guard.environment())
        self._folder = home

    async def tried(self, *words: str) -> list[Outcome]:
        """Have one command done; its outcome is the last."""
        before = len(self.events)
        await self.tell(" ".join(words))
        step = words[0]
        await self.until(lambda events: any(event.step == step for event in events[before:]), " ".join(words))
        return self.events[before:]

    async def does(self, *words: str) -> None:
        """Have one command done, which must succeed."""
        assert codes(await self.tried(*words)) == {"OK"}, self.report()

    async def received(self, *bodies: str) -> None:
        """Receive and acknowledge until all of these were there."""
        missing = set(bodies)
        async with asyncio.timeout(DEADLINE_S):
            while missing:
                outcomes = await self.tried("receive")
                assert codes(outcomes) == {"OK"}, self.report()
                missing -= {outcome.body for outcome in outcomes}

    def said(self) -> str:
        """All that the client has said: its errors, and what it wrote to its logs."""
        errors = [event.error for event in self.events]
        logs = [path.read_text(errors="replace") for path in self._folder.rglob("*") if path.suffix in (".err", ".log")]
        return "\n".join((*errors, *logs))


def codes(outcomes: Sequence[Outcome]) -> set[str]:
    return {outcome.code for outcome in outcomes}


def build_all() -> None:
    """Build the programs of all languages, so that no deadline of a test runs meanwhile."""
    for language in LANGUAGES:
        PROGRAMS.build(language)
