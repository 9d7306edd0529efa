"""The embedded stack as a process: registry, broker and fronts, from `ready` to a clean end."""

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ternmq_common.clock import MovableClock, SystemClock
from ternmq_common.process.private_files import narrow_modes
from ternmq_console.site import build_site
from ternmq_proxy.access.opening import open_access
from ternmq_proxy.catalog.catalog import Catalog
from ternmq_proxy.fronts.operator_calls import ProcessOperatorCalls
from ternmq_proxy.message_service.local import LocalMessageService
from ternmq_proxy.server.serving import serve_clients
from ternmq_proxy.server_process import ServerProcess
from ternmq_proxy.services import ANSWER_LIMITS, AnswerLimits
from ternmq_registry.copies.salvage import find_sidecars
from ternmq_registry.directory import RegistryDirectory
from ternmq_registry.registry import Registry
from ternmq_registry.security.init_user import check_has_user, create_init_user
from ternmq_registry.security.secret_encryption import OWN_KEY_FILE, secret_encryption_of
from ternmq_registry.unknown_topics import unknown_topics, warning_of
from ternmq_runtime import process
from ternmq_runtime.http.front import HttpFront
from ternmq_runtime.observability.process_observability import ProcessObservability
from ternmq_runtime.process_tls import ProcessTls
from ternmq_runtime.remoting_address import choose_remoting

if TYPE_CHECKING:
    from ternmq_common.server_settings import ServerSettings

_log = logging.getLogger(__name__)


def run(settings: "ServerSettings") -> int:
    """Serve until SIGTERM or SIGINT; return the process's exit code. Raises StartupError."""

    async def start_stack(stack: AsyncExitStack) -> str:
        if settings.test_clock:
            _log.warning(
                "TEST CLOCK: every client can move this server's time ahead (test_clock); "
                "never start with it where messages matter"
            )
        chosen = choose_remoting(settings)
        return process.ready_line(*await start(chosen, make_clock(settings), stack))

    return process.run_server(settings, start_stack)


async def start(
    settings: "ServerSettings", clock: SystemClock, stack: AsyncExitStack, answer_limits: AnswerLimits = ANSWER_LIMITS
) -> tuple[list[str], str, str, str]:
    """Start everything; `stack` stops it. Returns the addresses of gRPC, of HTTP, of the admin listener and of the
    remoting front as `host:port`; the last two are empty if there are none.

    `clock` belongs to this stack; `settings.test_clock` requires one that can be moved.
    """
    assert settings.test_clock == isinstance(clock, MovableClock)
    exposed = process.warn_of_exposure(settings)
    observability = ProcessObservability(settings, service="ternmq", instance=settings.broker_name)
    stack.push_async_callback(observability.stop_export)
    await observability.start_export()
    tls = await ProcessTls.load_files(settings, stack)
    observability.watch_certificates(tls.certificate_figures)
    messages, catalog = await open_storage(settings, clock, stack)
    observability.watch_broker(messages.broker_figures)
    access = open_access(settings, catalog, clock, stack)
    operator_calls = ProcessOperatorCalls()
    http = HttpFront(
        lambda: None,
        lambda: messages.outage_reason,
        degraded=lambda: messages.degraded_reason,
        metrics=observability.render_metrics,
        test_clock=settings.test_clock,
        exposed=exposed,
        may_read=None if settings.metrics_open or not access.is_on else access.may_read_metrics,
        header_timeout_ms=settings.header_timeout_ms,
        tls=tls.http,
        site=build_site(settings, operator_calls),
    )
    stack.push_async_callback(http.stop_listening)
    http_address = await http.start_listening(settings.http)
    name = settings.broker_name
    own = ServerProcess(
        kind="server", server=name, name=name, settings=settings, degraded=lambda: messages.degraded_reason
    )
    fronts = await serve_clients(
        settings, clock, catalog, messages, observability, stack, own, access, tls.grpc, answer_limits
    )
    operator_calls.open_calls(fronts.grpc.operator_calls)
    http.announce_address()
    return fronts.grpc.listener_addresses, http_address, fronts.grpc.admin_address, fronts.remoting_address


def make_clock(settings: "ServerSettings") -> SystemClock:
    """Return a clock that begins with the machine's time."""
    return MovableClock() if settings.test_clock else SystemClock()


async def open_storage(
    settings: "ServerSettings", clock: SystemClock, stack: AsyncExitStack
) -> tuple[LocalMessageService, Catalog]:
    """Open the broker and the registry below the data directory; `stack` closes them."""
    process.open_data_dir(settings.data_dir, stack)
    await asyncio.to_thread(LocalMessageService.make_room_to_start, settings.data_dir)
    database = settings.data_dir / "registry.db"
    narrow_modes(database, *find_sidecars(database))
    secret_encryption = await asyncio.to_thread(secret_encryption_of, settings, settings.data_dir)
    registry = await asyncio.to_thread(Registry.open_sqlite, database, secret_encryption)
    stack.callback(registry.close)
    await asyncio.to_thread(create_init_user, registry, settings, settings.data_dir)
    await asyncio.to_thread(check_has_user, registry, settings)
    directory = RegistryDirectory(registry, interval_s=None)
    await directory.start()
    catalog = Catalog(
        directory,
        auto_create=settings.auto_create,
        auto_create_per_minute=settings.auto_create_per_minute,
        default_queues=settings.default_queues,
        embedded=settings.broker_name,
    )
    messages = await LocalMessageService.open_store(settings, catalog.group_or_default, clock)
    messages.know_topics(catalog.known_topic)
    stack.push_async_callback(messages.close)
    await asyncio.to_thread(messages.live_files.watch_file, database)
    await asyncio.to_thread(messages.live_files.keep_file, settings.data_dir / OWN_KEY_FILE)
    await _warn_of_unknown_topics(messages, directory, settings)
    return messages, catalog


async def _warn_of_unknown_topics(
    messages: LocalMessageService, directory: RegistryDirectory, settings: "ServerSettings"
) -> None:
    known = directory.snapshot.topics
    waiting = (
        0
        if known
        else await messages.broker_figures.count_timers() + messages.broker_figures.current_figures().transactions
    )
    rebuild = f"ternmq registry rebuild --data-dir {settings.data_dir}"
    if warning := warning_of(unknown_topics(messages.inspecting.held_topics(), known), waiting, rebuild):
        _log.warning("%s", warning)
