"""The embedded stack as a process: registry, broker and fronts, from `ready` to a clean end."""

import asyncio
import logging
import signal
import sys
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ternmq_common.clock import Clock, MovableClock
from ternmq_common.delay_levels import parse_delay_levels
from ternmq_common.errors import StartupError
from ternmq_common.limits import MessageLimits
from ternmq_proxy.activities.client_life import depart
from ternmq_proxy.catalog import Catalog
from ternmq_proxy.fronts.grpc_front import GrpcFront
from ternmq_proxy.fronts.http_front import HttpFront
from ternmq_proxy.logs import configure_logging
from ternmq_proxy.message_service.local import LocalMessageService
from ternmq_proxy.processors.clients import ClientRegistry
from ternmq_proxy.processors.filters import Filters
from ternmq_proxy.processors.orphan_checks import OrphanChecks
from ternmq_proxy.processors.placement import Placement
from ternmq_proxy.processors.renewal import Renewal
from ternmq_proxy.processors.subscriptions import Subscriptions
from ternmq_proxy.services import Services
from ternmq_registry.registry import Registry

if TYPE_CHECKING:
    from ternmq_common.server_settings import ServerSettings

_log = logging.getLogger(__name__)
_CLIENT_CARE_S = 5.0


def run(settings: "ServerSettings") -> int:
    """Serve until SIGTERM or SIGINT; the process's exit code. StartupError: it could not begin."""
    configure_logging(settings.log_level, settings.log_format)
    return asyncio.run(_serve(settings))


async def _serve(settings: "ServerSettings") -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if settings.test_clock:
        _log.warning(
            "TEST CLOCK: every client can move this server's time ahead (test_clock); "
            "never start with it where messages matter"
        )
    async with AsyncExitStack() as stack:
        grpc_address, http_address = await start(settings, make_clock(settings), stack)
        sys.stdout.write(f"ready grpc={grpc_address} http={http_address}\n")
        sys.stdout.flush()
        await stop.wait()
        _log.info("stopping")
    return 0


async def start(settings: "ServerSettings", clock: Clock, stack: AsyncExitStack) -> tuple[str, str]:
    """Start everything; `stack` stops it again. Returns the addresses of gRPC and HTTP, `host:port` each.

    `clock` belongs to this one stack; one that can be moved goes with `settings.test_clock`.
    """
    assert settings.test_clock == isinstance(clock, MovableClock)
    messages, catalog = await open_storage(settings, clock, stack)
    http = HttpFront(lambda: messages.failure, test_clock=settings.test_clock)
    stack.push_async_callback(http.stop)
    http_address = await http.listen(settings.http)
    front = GrpcFront(settings.grpc)
    services = make_services(settings, clock, catalog, messages, front.address)
    stack.push_async_callback(services.orphans.close)
    stack.push_async_callback(front.stop, settings.shutdown_grace_ms / 1000)
    stack.callback(messages.end_polls)
    care = asyncio.create_task(_care_for_clients(services), name="client care")
    stack.callback(care.cancel)
    await front.start(services)
    messages.watch_orphans(services.orphans.ask)
    return front.address, http_address


def make_clock(settings: "ServerSettings") -> Clock:
    """The clock of a stack that begins with the machine's time."""
    return MovableClock() if settings.test_clock else Clock()


async def open_storage(
    settings: "ServerSettings", clock: Clock, stack: AsyncExitStack
) -> tuple[LocalMessageService, Catalog]:
    """Open the broker and the registry below the data directory; `stack` closes them again."""
    _make_data_dir(settings)
    registry = await asyncio.to_thread(Registry.sqlite, settings.data_dir / "registry.db")
    stack.callback(registry.close)
    catalog = Catalog(registry, auto_create=settings.auto_create, default_queues=settings.default_queues)
    await catalog.load()
    messages = await LocalMessageService.open(settings, catalog.rules, clock)
    stack.push_async_callback(messages.close)
    return messages, catalog


def make_services(
    settings: "ServerSettings", clock: Clock, catalog: Catalog, messages: LocalMessageService, endpoint: str
) -> Services:
    """What the activities ask; `endpoint` is the address of the front."""
    # Moving the clock must not expire clients that are alive.
    clients = ClientRegistry(time.monotonic, expiry_s=settings.client_expiry_ms / 1000)
    return Services(
        clock=clock,
        catalog=catalog,
        messages=messages,
        clients=clients,
        renewal=Renewal(messages, clock.now_ms, catalog.rules),
        orphans=OrphanChecks(messages, clients, time.monotonic, store_host=endpoint),
        filters=Filters(),
        subscriptions=Subscriptions(),
        placement=Placement(),
        limits=MessageLimits(
            body_bytes_max=settings.body_bytes_max,
            properties_max=settings.properties_max,
            properties_bytes_max=settings.properties_bytes_max,
            delay_max_ms=settings.delay_max_ms,
        ),
        delay_levels_ms=parse_delay_levels(settings.delay_levels),
        endpoint=endpoint,
        store_host=endpoint,
        long_poll_max_ms=settings.long_poll_max_ms,
        started_ms=clock.now_ms(),
    )


def _make_data_dir(settings: "ServerSettings") -> None:
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StartupError(
            f"the data directory {settings.data_dir} can't be made: {error.strerror}; "
            "give this user the right to write there, or choose another --data-dir"
        ) from error


async def _care_for_clients(services: Services) -> None:
    """Keep hidden what living clients hold, and show what dead ones held."""
    while True:
        await asyncio.sleep(_CLIENT_CARE_S)
        try:
            for client in services.clients.expire():
                _log.info("client %s is gone without a word", client.client_id)
                await depart(client, services)
            await services.renewal.renew()
        except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
            _log.exception("the care for clients failed; it goes on in %g s", _CLIENT_CARE_S)
