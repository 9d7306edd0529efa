"""Passes what comes to a Unix socket on to an address: `python door.py PATH HOST:PORT`.

Unix sockets are reached from any network namespace, so this is a way into the one in which it runs.
"""

import asyncio
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


async def main(path: str, address: str) -> None:
    host, _, port = address.rpartition(":")

    async def through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(passed_on(reader, back), passed_on(there, writer))

    server = await asyncio.start_unix_server(through, path)
    sys.stdout.write("open\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
