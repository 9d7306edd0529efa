"""One connection of a remoting client of which nothing good is expected: a blocking socket, and a thread that reads.

A connection that is lost, or on which the server takes nothing any more, is `Disconnected`.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from ternmq_rpc.remoting.commands import Command, decode_command, encode_command
from ternmq_rpc.remoting.frames import FrameReader, RemotingError
from tests.attacks.wire import Disconnected

_READ_BYTES = 1 << 18
_SEND_TIMEOUT_S = 5.0
_VERSION = 409  # 4.9.8


class RemotingWire:
    """A connection. `answered` is how many answers came; `on_answer` gets each, in the thread that reads. With
    `reads=False` nothing of the server's is read, ever."""

    def __init__(
        self,
        address: str,
        *,
        reads: bool = True,
        receive_buffer: int | None = None,
        on_answer: Callable[[Command], None] | None = None,
    ) -> None:
        host, _, port = address.rpartition(":")
        self.sock = socket.socket()
        if receive_buffer is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(_SEND_TIMEOUT_S)
        self.closed = False
        self.answered = 0
        self.sent = 0
        self._on_answer = on_answer
        self._changed = threading.Condition()
        try:
            self.sock.connect((host, int(port)))
        except OSError as error:
            self.sock.close()
            raise Disconnected(str(error)) from error
        self._reader = threading.Thread(target=self._read, daemon=True)
        if reads:
            self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.closed = True
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        if self._reader.is_alive():
            self._reader.join()
        self.sock.close()

    def send(self, data: bytes) -> None:
        """Send bytes, whatever they are."""
        if self.closed:
            raise Disconnected
        try:
            self.sock.sendall(data)
        except OSError as error:
            self.closed = True
            raise Disconnected(str(error)) from error

    def call(self, code: int, body: bytes = b"", flag: int = 0, /, **fields: object) -> int:
        """Send a request; return its number."""
        self.send(self.request(code, body, flag, **fields))
        return self.sent

    def request(self, code: int, body: bytes = b"", flag: int = 0, /, **fields: object) -> bytes:
        """The bytes of the next request, to be sent with others."""
        self.sent += 1
        texts = {name: str(value) for name, value in fields.items()}
        return encode_command(Command(code, opaque=self.sent, flag=flag, fields=texts, body=body, version=_VERSION))

    def wait_for_answers(self, count: int, timeout_s: float) -> bool:
        """Whether so many answers have come since the beginning; Disconnected if none will any more."""
        with self._changed:
            self._changed.wait_for(lambda: self.closed or self.answered >= count, timeout_s)
            if self.closed:
                raise Disconnected
            return self.answered >= count

    def _read(self) -> None:
        frames = FrameReader()
        while not self.closed:
            try:
                data = self.sock.recv(_READ_BYTES)
                if not data:
                    break
                answers = [decode_command(*frame) for frame in frames.read_frames(data)]
            except TimeoutError:
                continue
            except (OSError, RemotingError):
                break
            with self._changed:
                self.answered += len(answers)
                self._changed.notify_all()
            if self._on_answer is not None:
                for answer in answers:
                    self._on_answer(answer)
        with self._changed:
            self.closed = True
            self._changed.notify_all()
