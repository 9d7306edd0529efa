"""Sends HTTP requests to a process of this machine, at a socket in the file system."""

import asyncio

import h11

_READ_BYTES = 64 * 1024


class NoAnswer(Exception):
    """The process does not exist, or does not answer."""


async def request_locally(
    address: str, path: str, patience_s: float, *, body: bytes | None = None
) -> tuple[int, bytes]:
    """Return status and body of `GET path`, or with a body `POST path`, at the socket's path; NoAnswer."""
    try:
        async with asyncio.timeout(patience_s):
            reader, writer = await asyncio.open_unix_connection(address)
            try:
                return await _send_request(path, body, reader, writer)
            finally:
                writer.close()
    except (OSError, TimeoutError, h11.RemoteProtocolError) as error:
        raise NoAnswer from error


async def _send_request(
    path: str, asking: bytes | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[int, bytes]:
    http = h11.Connection(h11.CLIENT)
    headers = [("host", "localhost"), ("connection", "close"), ("content-length", str(len(asking or b"")))]
    method = "GET" if asking is None else "POST"
    for part in (
        h11.Request(method=method, target=path, headers=headers),
        h11.Data(data=asking or b""),
        h11.EndOfMessage(),
    ):
        writer.write(http.send(part) or b"")
    await writer.drain()
    code, body = 0, bytearray()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            code = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return code, bytes(body)
        else:
            raise NoAnswer
