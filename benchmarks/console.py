"""Measures what an open console costs: `python -m benchmarks.console [--seconds N]`; needs Debian's Chromium.

A server of its own has 1,000 topics and as many groups. It measures the bytes of the first page, how soon that can be
used after its answer has come, what the server computes while pages are open and refresh themselves, and how long sends
take without pages and while ten pages request what open ones do, in turns, each first every other round. The slowest
sync of the disk is printed with them, since no send can be faster. Sends are in a process of their own, and the ten
pages are not in a browser, which would take the server's cores.
"""

import argparse
import asyncio
import itertools
import json
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil
from playwright.async_api import Browser, Page, async_playwright

from benchmarks.lite_topics import computed
from ternmq import Message, Producer
from tests.support.embedded import RawClient
from tests.support.stack import Stack

NAMES = 1000
OPEN = 10
RATE = 200
ROUNDS = 4
TOPIC = "topic-0"
_SYNCS = re.compile(r'^ternmq_store_sync_duration_seconds_bucket\{.*?le="([^"]+)".*?\} (\S+)$', re.MULTILINE)
# The requests of an open page, and every how many seconds.
PAGES = {
    "/console/topics": ("/console/topics", 10.0),
    "/console/groups": ("/console/groups", 10.0),
    "/console/topics/topic-0": ("/console/topics/topic-0", 5.0),
    "/console/groups/group-1": ("/console/groups/group-1", 5.0),
    "/console/rates": ("/console/plots?hours=1", 30.0),
    "/console/messages/tail?topic=topic-0": ("/console/messages/tail/new?topic=topic-0", 2.0),
    "/console/brokers": ("/console/brokers", 5.0),
}


async def opened(browser: Browser, url: str) -> Page:
    page = await (await browser.new_context()).new_page()
    await page.goto(url, wait_until="load")
    return page


async def first_page(browser: Browser, url: str) -> tuple[int, float]:
    """Return the bytes of the page, and milliseconds from the end of the answer to where its scripts have run."""
    context = await browser.new_context()
    page = await context.new_page()
    sizes: list[int] = []

    async def note(request: object) -> None:
        sizes.append((await request.sizes())["responseBodySize"])  # type: ignore[attr-defined]

    page.on("requestfinished", note)
    await page.goto(url, wait_until="networkidle")
    usable_ms = await page.evaluate(
        "(() => { const [n] = performance.getEntriesByType('navigation'); return n.domComplete - n.responseEnd; })()"
    )
    await context.close()
    return sum(sizes), float(usable_ms)


async def sends_ms(endpoint: str, seconds: float) -> list[float]:
    """Return how long sends took, RATE a second, in a process of their own."""
    command = (sys.executable, "-m", "benchmarks.console", "--send-to", endpoint, "--seconds", str(seconds))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    return [float(each) for each in json.loads(output)]


async def send_all(endpoint: str, seconds: float) -> list[float]:
    async with Producer(endpoint, topics=[TOPIC]) as producer:
        await producer.send(Message(TOPIC, b"first"))
        return await sent_ms(producer, seconds)


async def sent_ms(producer: Producer, seconds: float) -> list[float]:
    took: list[float] = []

    async def send() -> None:
        began = time.perf_counter()
        await producer.send(Message(TOPIC, b"x" * 100))
        took.append((time.perf_counter() - began) * 1000)

    began = time.monotonic()
    tasks = []
    for number in range(int(seconds * RATE)):
        await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
        tasks.append(asyncio.create_task(send()))
    await asyncio.gather(*tasks)
    return took


async def renew(address: str, path: str, every_s: float) -> None:
    """Request a page again and again, as an open one does."""
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    cookie = ""
    try:
        while True:
            lines = [
                f"GET {path} HTTP/1.1",
                f"host: {address}",
                "hx-request: true",
                *([cookie] if cookie else []),
                "",
                "",
            ]
            writer.write("\r\n".join(lines).encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
            await reader.readexactly(int(headers["content-length"]))
            cookie = cookie or f"cookie: {headers['set-cookie'].partition(';')[0]}"
            await asyncio.sleep(every_s)
    finally:
        writer.close()


async def syncs(address: str) -> dict[float, int]:
    """Return how many syncs of the commit log took no longer than these milliseconds."""
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    return {float(bound) * 1000: int(float(count)) for bound, count in _SYNCS.findall(text)}


def slowest_ms(before: dict[float, int], after: dict[float, int]) -> float:
    """Return a bound that none of the syncs between the two has exceeded."""
    new_counts = {bound: after[bound] - before.get(bound, 0) for bound in after}
    return min(bound for bound, count in new_counts.items() if count == max(new_counts.values()))


async def round_of_sends(stack: Stack, seconds: float) -> str:
    before = await syncs(stack.http)
    cuts = statistics.quantiles(await sends_ms(stack.grpc, seconds), n=100)
    slowest = slowest_ms(before, await syncs(stack.http))
    return f"median {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms (slowest sync {slowest:.0f} ms or less)"


async def beside_pages(stack: Stack, seconds: float) -> str:
    renewing = []
    for path, every_s in itertools.islice(itertools.cycle(PAGES.values()), OPEN):
        renewing.append(asyncio.create_task(renew(stack.http, path, every_s)))
        await asyncio.sleep(0.3)
    figures = await round_of_sends(stack, seconds)
    for task in renewing:
        task.cancel()
    await asyncio.gather(*renewing, return_exceptions=True)
    return figures


async def measure(stack: Stack, seconds: float) -> None:
    server = psutil.Process(stack.process.pid)
    url = f"http://{stack.http}"
    async with RawClient(stack.grpc) as client:
        for number in range(NAMES):
            await client.create_topic(f"topic-{number}", queues=4)
            await client.create_group(f"group-{number}")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        await first_page(browser, url)  # which has the server import it
        found = [await first_page(browser, url) for _ in range(5)]
        print(
            f"first page: {found[0][0] / 1000:.0f} KB, usable after {statistics.median(ms for _, ms in found):.0f} ms"
        )
        print(f"server without a page: {await computed(server, seconds):.2%} of a core", flush=True)
        for path in PAGES:
            page = await opened(browser, url + path)
            print(f"with {path}: {await computed(server, seconds):.2%} of a core", flush=True)
            await page.context.close()
        await browser.close()
    for number in range(ROUNDS):
        if number % 2:
            beside = await beside_pages(stack, seconds)
            alone = await round_of_sends(stack, seconds)
        else:
            alone = await round_of_sends(stack, seconds)
            beside = await beside_pages(stack, seconds)
        print(f"sends, {RATE}/s: alone {alone}; with {OPEN} pages open {beside}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30, help="of each measurement")
    parser.add_argument("--send-to", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.send_to:
        print(json.dumps(asyncio.run(send_all(arguments.send_to, arguments.seconds))))
        return 0
    with tempfile.TemporaryDirectory() as folder, Stack(Path(folder)) as stack:
        asyncio.run(measure(stack, arguments.seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
