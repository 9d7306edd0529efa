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

from ternmq.connections.connection import GrpcConnection, TelemetryStream
from ternmq.connections.isolated_endpoints import IsolatedEndpoints, log_level_of
from ternmq.errors import ClientError, ConnectionFailed, DeadlineExceeded, TransportError, Unauthorized, create_error
from ternmq.times.backoff import RECONNECT_BACKOFF
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.pacing.backoff import add_jitter
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionOwner:
    """The client's part of a session: creates its settings, applies the server's, answers commands, and notes by
    `isolated` that the connection is lost, or back, as a handshake shows."""

    create_settings: Callable[[], pb.Settings]
    apply_settings: Callable[[GrpcConnection, pb.Settings], None]
    answer_command: Callable[[GrpcConnection, rpc.TelemetryCommand], Awaitable[rpc.TelemetryCommand | None]]
    isolated: IsolatedEndpoints


class TelemetrySession:
    """Keeps one Telemetry stream open."""

    def __init__(self, connection: GrpcConnection, owner: SessionOwner, *, handshake_timeout_s: float) -> None:
        self.connection = connection
        self._owner = owner
        self._handshake_timeout_s = handshake_timeout_s
        self._stream: TelemetryStream | None = None
        self._settled = asyncio.Event()
        self._failure: ClientError | None = None
        self._has_retired = False
        self._has_settings = asyncio.Event()
        self._tasks = BackgroundTasks(logger)
        self._tasks.start(self._keep_open(), name=f"ternmq session {connection.endpoints}")

    @property
    def is_settled(self) -> bool:
        """Whether the first handshake has ended, in success or failure."""
        return self._settled.is_set()

    async def wait_opened(self) -> None:
        """Wait for the first handshake; raise its failure. The session goes on trying nevertheless."""
        await self._settled.wait()
        if self._failure is not None:
            raise self._failure

    async def send_settings(self) -> None:
        """Send the settings again, after a change or for a server that forgot them."""
        if self._stream is not None:
            await self._stream.write_command(rpc.TelemetryCommand(settings=self._owner.create_settings()))

    async def resend_settings(self) -> None:
        """Send the settings again and wait for the server's; DeadlineExceeded."""
        self._has_settings.clear()
        await self.send_settings()
        try:
            async with asyncio.timeout(self._handshake_timeout_s):
                await self._has_settings.wait()
        except TimeoutError:
            raise self._timeout_error() from None

    async def end_output(self) -> None:
        """End this side of the stream, and open no other: the client is about to close, and the server ends its
        polls."""
        self._has_retired = True
        stream, self._stream = self._stream, None
        if stream is not None:
            try:
                await stream.end_writing()
            except ClientError as error:
                logger.debug("%s: the stream broke before it was ended: %s", self.connection.endpoints, error)

    async def close(self) -> None:
        await self._tasks.stop()

    async def _keep_open(self) -> None:
        failures = itertools.count(1)
        endpoints, isolated = self.connection.endpoints, self._owner.isolated
        while not self._has_retired:
            changes = isolated.changes_of(endpoints)
            try:
                with await self.connection.open_telemetry(timeout_s=self._handshake_timeout_s) as stream:
                    await self._exchange_settings(stream)
                    failures = itertools.count(1)
                    isolated.note_found(endpoints, changes)
                    changes = isolated.changes_of(endpoints)
                    await self._read_commands(stream)
                logger.debug("%s ended the session; it is opened again", endpoints)
            except TransportError as error:
                self._finish_handshake(error)
                isolated.note_lost(endpoints, error, changes)
            except ClientError as error:
                self._finish_handshake(error)
                if isinstance(error, Unauthorized):
                    isolated.note_lost(endpoints, error, changes)
                else:
                    logger.warning("the settings of this client were refused, and are sent again: %s", error)
            except Exception:
                # A settings answer or a command that triggers a bug must not end the session for good.
                logger.exception("the session with %s failed", endpoints)
                self._finish_handshake(ConnectionFailed(str(endpoints), "the settings could not be used"))
            finally:
                self._stream = None
            # Not a secret: it only spreads the reconnections of many clients.
            delay_s = add_jitter(RECONNECT_BACKOFF.delay_s(next(failures)), random.random())  # noqa: S311
            await asyncio.sleep(delay_s)

    async def _exchange_settings(self, stream: TelemetryStream) -> None:
        try:
            async with asyncio.timeout(self._handshake_timeout_s):
                await stream.write_command(rpc.TelemetryCommand(settings=self._owner.create_settings()))
                while not self._handle_command(stream, await stream.read_command()):
                    pass
        except TimeoutError:
            raise self._timeout_error() from None
        self._stream = stream
        self._finish_handshake(None)

    async def _read_commands(self, stream: TelemetryStream) -> None:
        while (command := await stream.read_command()) is not None:
            self._handle_command(stream, command)

    def _handle_command(self, stream: TelemetryStream, command: rpc.TelemetryCommand | None) -> bool:
        """Handle a command; return whether it was settings. A server may send another one before it answers those."""
        if command is None or command.WhichOneof("command") in {None, "settings"}:
            return self._handle_settings(command)
        # Verifying a message takes as long as the user's listener; other commands may arrive meanwhile.
        self._tasks.start(self._send_answer(stream, command))
        return False

    def _handle_settings(self, command: rpc.TelemetryCommand | None) -> bool:
        if command is None:
            raise ConnectionFailed(str(self.connection.endpoints), "the server ended the Telemetry stream")
        if command.status.code not in {pb.OK, pb.CODE_UNSPECIFIED}:
            raise create_error(command.status.code, f"{self.connection.endpoints}: {command.status.message}")
        if not command.HasField("settings"):
            return False
        self._owner.apply_settings(self.connection, command.settings)
        self._has_settings.set()
        return True

    def _timeout_error(self) -> DeadlineExceeded:
        text = f"no answer to the settings within {self._handshake_timeout_s:g} s"
        return DeadlineExceeded(str(self.connection.endpoints), text)

    async def _send_answer(self, stream: TelemetryStream, command: rpc.TelemetryCommand) -> None:
        try:
            answer = await self._owner.answer_command(self.connection, command)
            if answer is not None:
                await stream.write_command(answer)
        except ClientError as error:
            text = "a command of %s could not be answered: %s"
            logger.log(log_level_of(error), text, self.connection.endpoints, error)
        except Exception:
            logger.exception("a command of %s failed", self.connection.endpoints)

    def _finish_handshake(self, failure: ClientError | None) -> None:
        if not self._settled.is_set():
            self._failure = failure
            self._settled.set()
