"""The server's side of a connection, driven in this process: bytes in, bytes out, and no network.

This is the one module here that knows the product. It drives the whole of a connection, with the calls that it serves,
by the interface that asyncio drives it by.
"""

import asyncio
import logging
import random
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ternmq_rpc.grpc_stream.call_connection import CallConnection
from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.grpc_stream.served_call import ServedCall, ServedMethod
from ternmq_rpc.serving.budgets import ConnectionBudgets
from tests.fuzz.conversations import TALK, UNARY
from tests.fuzz.output_rules import OutputRules

MESSAGE_MAX = 1 << 16
# A turn more than the longest way from a frame to the bytes that answer it.
_TURNS = 4
_TURNS_TO_END = 100
# Nothing that an input of ours asks for takes so long, on any machine.
INPUT_MAX_S = 5.0
# An answer is an echo, and each frame may be answered by a few of its own.
_OUTPUT_MAX = 1 << 20


class Broken(AssertionError):
    """An input that does what none may."""


class Pipe(asyncio.Transport):
    """A network that takes what it is given, at times with a pause."""

    def __init__(self, loop: asyncio.AbstractEventLoop, peer: socket.socket, dice: random.Random) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "socket": peer})
        self._loop = loop
        self._protocol: asyncio.BaseProtocol | None = None
        self._room = dice.choice((1 << 30, 1 << 30, 100))
        self._paused = self._reading_paused = False
        self.output: list[bytes] = []
        self.closing = self.lost = self.ended = False

    def connect(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.ended:
            raise RuntimeError("write after write_eof")  # as asyncio's own
        if self.lost or not data:
            return
        self.output.append(bytes(data))
        self._room -= len(data)
        if self._room < 0 and not self._paused and not self.closing:
            self._paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()
            self._loop.call_soon(self._resume)

    def writelines(self, list_of_data: Any) -> None:  # noqa: ANN401 - buffers of all kinds
        self.write(b"".join(list_of_data))

    def _resume(self) -> None:
        self._paused, self._room = False, 1 << 20
        if not self.lost:
            assert self._protocol is not None
            self._protocol.resume_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is kept here."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closing

    def is_reading(self) -> bool:
        return not self._reading_paused and not self.closing

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self._loop.call_soon(self.lose)

    def abort(self) -> None:
        self.close()

    def lose(self) -> None:
        """The connection is no more."""
        if not self.lost:
            self.closing = self.lost = True
            assert self._protocol is not None
            self._protocol.connection_lost(None)


class Subject:
    """A server with a unary method and a conversation, both of which give back what they get."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._peer = socket.socket()
        self._problems: list[str] = []
        self._loop.set_exception_handler(lambda _, context: self._problems.append(repr(context)))
        methods = {UNARY: ServedMethod(_unary), TALK: ServedMethod(_talk, is_conversation=True)}
        asyncio.set_event_loop(self._loop)
        self._server = CallServer(
            methods.get, headers=("x-mq-client-id",), budgets=ConnectionBudgets(message_bytes_max=MESSAGE_MAX)
        )

    def close(self) -> None:
        self._loop.run_until_complete(self._server.stop_serving(0))
        self._loop.close()
        self._peer.close()

    def take(self, data: bytes, seed: int) -> OutputRules:
        """One connection on which that comes, in pieces; Broken if something happens that may not."""
        began = time.perf_counter()
        dice = random.Random(seed)
        pipe = Pipe(self._loop, self._peer, dice)
        with _errors_logged(self._problems):
            connection = self._loop.run_until_complete(self._connected(pipe))
            for piece in _pieces(data, dice):
                self._turn_until(lambda: pipe.closing or pipe.is_reading())
                if pipe.closing:
                    break
                self._loop.call_soon(_receive, connection, piece)
                self._turn(1)
            self._turn(_TURNS)
            self._loop.call_soon(pipe.lose)
            self._turn_until(lambda: pipe.lost and not self._server.tasks)
        rules = self._checked(pipe)
        if time.perf_counter() - began > INPUT_MAX_S:
            raise Broken(f"this input takes {time.perf_counter() - began:.1f} s")
        return rules

    async def _connected(self, pipe: Pipe) -> CallConnection:
        connection = CallConnection(self._server, "")
        pipe.connect(connection)
        return connection

    def _turn(self, times: int) -> None:
        for _ in range(times):
            self._loop.call_soon(self._loop.stop)
            self._loop.run_forever()

    def _turn_until(self, is_so: Any) -> None:  # noqa: ANN401 - a question without arguments
        for _ in range(_TURNS_TO_END):
            if is_so():
                return
            self._turn(1)

    def _checked(self, pipe: Pipe) -> OutputRules:
        problems, self._problems[:] = list(self._problems), []
        if problems:
            raise Broken("; ".join(problems))
        if self._server.tasks:
            raise Broken(f"{len(self._server.tasks)} calls go on without their connection")
        if self._server.connections:
            raise Broken("the server keeps a connection that is no more")
        output = b"".join(pipe.output)
        if len(output) > _OUTPUT_MAX:
            raise Broken(f"{len(output)} bytes of output")
        rules = OutputRules()
        rules.feed(output)
        rules.finish()
        return rules


async def _unary(call: ServedCall) -> None:
    await call.finish_answer(await call.read_message() or b"")


async def _talk(call: ServedCall) -> None:
    while (message := await call.read_message()) is not None:
        call.write_messages(message)
        await call.wait_drained()


def _receive(connection: asyncio.BufferedProtocol, data: bytes) -> None:
    while data:
        buffer = memoryview(connection.get_buffer(-1)).cast("B")
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        connection.buffer_updated(size)
        data = data[size:]


def _pieces(data: bytes, dice: random.Random) -> list[bytes]:
    """What comes together: mostly all, at times byte by byte around a place."""
    cuts = sorted(dice.randint(0, len(data)) for _ in range(dice.choice((0, 0, 1, 2, 5))))
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if begin < end]


class _Collecting(logging.Handler):
    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{text}: {record.exc_info[1]!r}"
        self._found.append(text)


@contextmanager
def _errors_logged(found: list[str]) -> Iterator[None]:
    handler, logger = _Collecting(found), logging.getLogger("ternmq_common")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
