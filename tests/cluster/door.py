"""Passes what comes to a socket on to an address: `python door.py PATH HOST:PORT`; or NUMBER instead of PATH.

Unix sockets, as at PATH, are reached from any network namespace, so this is a way into the one in which it runs. So is
a socket that listens in another one: who starts this hands it over, by its file descriptor's number.
"""

import asyncio
import socket
import sys


async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # one side has gone, and the other one learns of it
    finally:
        writer.close()


async def main(way: str, address: str) -> None:
    host, _, port = address.rpartition(":")

    async def through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(passed_on(reader, back), passed_on(there, writer))

    if way.isdigit():
        server = await asyncio.start_server(through, sock=socket.socket(fileno=int(way)))
    else:
        server = await asyncio.start_unix_server(through, way)
    sys.stdout.write("open\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
