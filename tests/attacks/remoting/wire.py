"""One connection of a remoting client of which nothing good is expected: a blocking socket, and a thread that reads.

A connection that is lost, or on which the server takes nothing any more, is `Disconnected`.
"""

from collections.abc import Callable

from ternmq_rpc.remoting.commands import Command, decode_command, encode_command
from ternmq_rpc.remoting.frames import FrameReader, RemotingError
from tests.attacks.wire import Connection

_VERSION = 409  # 4.9.8


class RemotingWire(Connection):
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
        super().__init__(address, receive_buffer)
        self.answered = 0
        self.sent = 0
        self._on_answer = on_answer
        self._frames = FrameReader()
        if reads:
            self._reader.start()

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
        return self._wait_until(lambda: self.answered >= count, timeout_s)

    def _heard_bytes(self, data: bytes) -> None:
        try:
            answers = [decode_command(*frame) for frame in self._frames.read_frames(data)]
        except RemotingError as error:
            raise ConnectionError(str(error)) from error
        with self._changed:
            self.answered += len(answers)
            self._changed.notify_all()
        if self._on_answer is not None:
            for answer in answers:
                self._on_answer(answer)
