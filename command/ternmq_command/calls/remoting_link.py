"""Sends many requests at a time to one server of the remoting protocol by one connection, which is opened again after a
failure.

A request that was given up, or whose connection broke, may have been carried out.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Self

from ternmq_command.calls.remoting_calls import VERSION, RemotingAccess, RemotingUnreachable, check_answer, sign_fields
from ternmq_common.addresses import parse_address
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.printable import cut_text
from ternmq_rpc.remoting.commands import Command, decode_command, encode_command
from ternmq_rpc.remoting.frames import JSON, FrameReader, RemotingError
from ternmq_rpc.remoting.json_dialect import decode_dialect

TIMEOUT_S = 15.0
CONNECT_TIMEOUT_S = 5.0
_READ_BYTES = 1 << 18


class RemotingLink:
    """`async with RemotingLink(address, access) as link: await link.request(11, topic="orders")`.

    An answer is at most `answer_max` bytes.
    """

    def __init__(self, address: str, access: RemotingAccess, *, answer_max: int) -> None:
        self.address = address
        self._access = access
        self._answer_max = answer_max
        self._connecting = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._tasks = BackgroundTasks()
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._number = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        await self._tasks.stop()

    async def request(
        self, code: int, fields: Mapping[str, str], body: bytes = b"", *, timeout_s: float = TIMEOUT_S
    ) -> Command:
        """Send a request, and return its answer with any code. Raises RemotingUnreachable without an answer."""
        number = 0
        try:
            async with asyncio.timeout(timeout_s):
                writer = await self._connect()
                self._number = number = self._number + 1
                waiting: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
                self._waiting[number] = waiting
                signed = sign_fields(dict(fields), body, self._access)
                command = Command(code, opaque=number, fields=signed, body=body, version=VERSION)
                writer.write(encode_command(command, JSON))
                await writer.drain()
                return await waiting
        except TimeoutError:
            raise RemotingUnreachable(f"{self.address} gives no answer to request {code} in {timeout_s:g} s") from None
        except (OSError, ValueError) as error:
            raise RemotingUnreachable(f"can't reach {cut_text(self.address)}: {error}") from None
        finally:
            self._waiting.pop(number, None)

    async def read_table(self, code: int, **fields: str) -> dict[str, object]:
        """Send a request whose answer is a JSON object, and return that; also raises RemotingRefused."""
        answer = check_answer(await self.request(code, fields), code, self.address)
        try:
            content = decode_dialect(answer.body, bytes_max=self._answer_max) if answer.body else {}
        except RemotingError as error:
            raise RemotingUnreachable(f"{self.address} answers request {code} with invalid JSON: {error}") from None
        if not isinstance(content, dict):
            raise RemotingUnreachable(f"{self.address} answers request {code} with something else than a JSON object")
        return {str(name): value for name, value in content.items()}

    async def _connect(self) -> asyncio.StreamWriter:
        async with self._connecting:
            if self._writer is None:
                host, port = parse_address(self.address)
                name = (self._access.server_name or host) if self._access.tls else None
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    reader, writer = await asyncio.open_connection(
                        host, port, ssl=self._access.tls, server_hostname=name
                    )
                self._writer = writer
                self._tasks.start(self._read_forever(reader, writer))
            return self._writer

    async def _read_forever(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reason = "it closed the connection"
        try:
            await self._read_answers(reader)
        except (OSError, RemotingError) as error:
            reason = str(error)
        finally:
            self._writer = None
            writer.close()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError(reason))
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _read_answers(self, reader: asyncio.StreamReader) -> None:
        frames = FrameReader(self._answer_max)
        while data := await reader.read(_READ_BYTES):
            for frame in frames.read_frames(data):
                command = decode_command(*frame)
                waiting = self._waiting.get(command.opaque) if command.is_response else None
                if waiting is not None and not waiting.done():
                    waiting.set_result(command)
