"""A client's session with one endpoint: the Telemetry stream, on which both sides exchange their settings.

The client writes its settings first, the server answers with those that apply; only then other calls are sure to be
served. The stream stays open; when it breaks it is opened again with backoff, settings first. The server may send
commands on it at any time.
"""

import asyncio
import itertools
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ternmq.backoff import RECONNECT_BACKOFF, jittered
from ternmq.connection import Connection, TelemetryStream
from ternmq.errors import ClientError, ConnectionFailed, DeadlineExceeded, TransportError, Unauthorized, error_of
from ternmq.reachability import Isolated, level_of
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionOwner:
    """The client's part of a session: creates its settings, applies the server's, answers commands, and notes by
    `isolated` that the connection is lost, or back, as a handshake shows."""

    settings: Callable[[], pb.Settings]
    take_settings: Callable[[Connection, pb.Settings], None]
    answer: Callable[[Connection, rpc.TelemetryCommand], Awaitable[rpc.TelemetryCommand | None]]
    isolated: Isolated


class Session:
    """Keeps one Telemetry stream open."""

    def __init__(self, connection: Connection, owner: SessionOwner, *, handshake_timeout_s: float) -> None:
        self.connection = connection
        self._owner = owner
        self._handshake_timeout_s = handshake_timeout_s
        self._stream: TelemetryStream | None = None
        self._settled = asyncio.Event()
        self._failure: ClientError | None = None
        self._has_retired = False
        self._has_taken = asyncio.Event()
        self._answers: set[asyncio.Task[None]] = set()
        self._task = asyncio.create_task(self._run(), name=f"ternmq session {connection.endpoints}")

    @property
    def settled(self) -> bool:
        """Whether the first handshake has ended, in success or failure."""
        return self._settled.is_set()

    async def opened(self) -> None:
        """Wait for the first handshake; raise its failure. The session goes on trying nevertheless."""
        await self._settled.wait()
        if self._failure is not None:
            raise self._failure

    async def send_settings(self) -> None:
        """Send the settings again, after a change or for a server that forgot them."""
        if self._stream is not None:
            await self._stream.write(rpc.TelemetryCommand(settings=self._owner.settings()))

    async def settle_again(self) -> None:
        """Send the settings again and wait for the server's; DeadlineExceeded."""
        self._has_taken.clear()
        await self.send_settings()
        try:
            async with asyncio.timeout(self._handshake_timeout_s):
                await self._has_taken.wait()
        except TimeoutError:
            raise self._late() from None

    async def retire(self) -> None:
        """End this side of the stream, and open no other: the client is about to close, and the server ends its
        polls."""
        self._has_retired = True
        stream, self._stream = self._stream, None
        if stream is not None:
            try:
                await stream.end()
            except ClientError as error:
                logger.debug("%s: the stream broke before it was ended: %s", self.connection.endpoints, error)

    async def close(self) -> None:
        tasks = [self._task, *self._answers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        failures = itertools.count(1)
        endpoints, isolated = self.connection.endpoints, self._owner.isolated
        while not self._has_retired:
            changes = isolated.changes_of(endpoints)
            try:
                with await self.connection.telemetry() as stream:
                    await self._handshake(stream)
                    failures = itertools.count(1)
                    isolated.found(endpoints, changes)
                    changes = isolated.changes_of(endpoints)
                    await self._listen(stream)
                logger.debug("%s ended the session; it is opened again", endpoints)
            except TransportError as error:
                self._settle(error)
                isolated.lost(endpoints, error, changes)
            except ClientError as error:
                self._settle(error)
                if isinstance(error, Unauthorized):
                    isolated.lost(endpoints, error, changes)
                else:
                    logger.warning("the settings of this client were refused, and are sent again: %s", error)
            except Exception:
                # A settings answer or a command that triggers a bug must not end the session for good.
                logger.exception("the session with %s failed", endpoints)
                self._settle(ConnectionFailed(str(endpoints), "the settings could not be used"))
            finally:
                self._stream = None
            # Not a secret: it only spreads the reconnections of many clients.
            delay_s = jittered(RECONNECT_BACKOFF.delay_s(next(failures)), random.random())  # noqa: S311
            await asyncio.sleep(delay_s)

    async def _handshake(self, stream: TelemetryStream) -> None:
        try:
            async with asyncio.timeout(self._handshake_timeout_s):
                await stream.write(rpc.TelemetryCommand(settings=self._owner.settings()))
                while not self._taken(stream, await stream.read()):
                    pass
        except TimeoutError:
            raise self._late() from None
        self._stream = stream
        self._settle(None)

    async def _listen(self, stream: TelemetryStream) -> None:
        while (command := await stream.read()) is not None:
            self._taken(stream, command)

    def _taken(self, stream: TelemetryStream, command: rpc.TelemetryCommand | None) -> bool:
        """Handle a command; return whether it was settings. A server may send another one before it answers those."""
        if command is None or command.WhichOneof("command") in {None, "settings"}:
            return self._settings_taken(command)
        # Verifying a message takes as long as the user's listener; other commands may arrive meanwhile.
        task = asyncio.create_task(self._answer(stream, command))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
        return False

    def _settings_taken(self, command: rpc.TelemetryCommand | None) -> bool:
        if command is None:
            raise ConnectionFailed(str(self.connection.endpoints), "the server ended the Telemetry stream")
        if command.status.code not in {pb.OK, pb.CODE_UNSPECIFIED}:
            raise error_of(command.status.code, f"{self.connection.endpoints}: {command.status.message}")
        if not command.HasField("settings"):
            return False
        self._owner.take_settings(self.connection, command.settings)
        self._has_taken.set()
        return True

    def _late(self) -> DeadlineExceeded:
        text = f"no answer to the settings within {self._handshake_timeout_s:g} s"
        return DeadlineExceeded(str(self.connection.endpoints), text)

    async def _answer(self, stream: TelemetryStream, command: rpc.TelemetryCommand) -> None:
        try:
            answer = await self._owner.answer(self.connection, command)
            if answer is not None:
                await stream.write(answer)
        except ClientError as error:
            text = "a command of %s could not be answered: %s"
            logger.log(level_of(error), text, self.connection.endpoints, error)
        except Exception:
            logger.exception("a command of %s failed", self.connection.endpoints)

    def _settle(self, failure: ClientError | None) -> None:
        if not self._settled.is_set():
            self._failure = failure
            self._settled.set()
