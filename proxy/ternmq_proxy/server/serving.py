"""Serves clients in front of any storage: services, gRPC front, and the maintenance of clients."""

import functools
import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.catalog.delay_levels import parse_delay_levels
from ternmq_common.event_loop.background_loop import BackgroundLoop
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_common.filters.filter_cache import FilterCache
from ternmq_common.limits import MessageLimits, RequestLimits
from ternmq_common.pacing.bucket import TokenBucket
from ternmq_common.printable import list_names
from ternmq_proxy.access.control import AccessControl
from ternmq_proxy.catalog.proxy_heartbeat import ProxyHeartbeat, make_proxy_entry
from ternmq_proxy.fronts.budgets import budgets_of, connections_max
from ternmq_proxy.fronts.grpc.front import GrpcFront
from ternmq_proxy.fronts.remoting.front import RemotingFront
from ternmq_proxy.fronts.remoting.producers import find_producer_group
from ternmq_proxy.handles import HandleForms
from ternmq_proxy.operations.admin.peer_questions import ABOUT_ITSELF, answer_proxies
from ternmq_proxy.operations.client_life import release_client
from ternmq_proxy.operations.lite_subscriptions import LITE_ADDS_PER_S
from ternmq_proxy.processors.clients import ClientRegistry
from ternmq_proxy.processors.lite_notices import LiteNotices
from ternmq_proxy.processors.orphan_checks import OrphanChecks
from ternmq_proxy.processors.renewal import AutoRenewal
from ternmq_proxy.processors.sending.inflation import InflationRoom
from ternmq_proxy.processors.sending.placement import QueuePlacement
from ternmq_proxy.processors.subscription_news import handle_new_subscriptions
from ternmq_proxy.processors.subscriptions import GroupSubscriptions
from ternmq_proxy.quotas.quotas import ClientQuotas
from ternmq_proxy.quotas.shares import QuotaShares, name_of
from ternmq_proxy.server.front_history import FrontHistory
from ternmq_proxy.server_process import ServerProcess
from ternmq_proxy.services import ANSWER_LIMITS, AnswerLimits, Services

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack

    from ternmq_common.clock import SystemClock
    from ternmq_common.server_settings import FrontSettings
    from ternmq_proxy.catalog.catalog import Catalog
    from ternmq_proxy.message_service.interface import MessageService
    from ternmq_rpc.tls.opening import PortTls
    from ternmq_runtime.observability.process_observability import ProcessObservability

_log = logging.getLogger(__name__)
_CLIENT_CARE_S = 5.0
# Forgotten within two milliseconds.
_GONE_AT_ONCE = 500


class ServedFronts(NamedTuple):
    """The fronts of a process; `remoting` is None if it serves none."""

    grpc: GrpcFront
    remoting: RemotingFront | None

    @property
    def remoting_address(self) -> str:
        """`host:port` of the remoting front, empty if there is none."""
        return "" if self.remoting is None else self.remoting.address


def _no_front() -> int:
    return 0


async def serve_clients(
    settings: "FrontSettings",
    clock: "SystemClock",
    catalog: "Catalog",
    messages: "MessageService",
    observability: "ProcessObservability",
    stack: "AsyncExitStack",
    process: ServerProcess,
    access: AccessControl | None = None,
    tls: "PortTls | None" = None,
    answer_limits: AnswerLimits = ANSWER_LIMITS,
) -> ServedFronts:
    """Listen and serve; `stack` stops it. The fronts know their addresses."""
    front = GrpcFront(
        settings.grpc_listeners,
        observability,
        admin=settings.admin,
        budgets=budgets_of(settings),
        connections_max=connections_max(settings),
        shared=settings.workers > 1,
        tls=tls,
        overload_delay_ms=settings.overload_delay_ms,
        signed=settings.access_control,
    )
    remoting = _create_remoting(settings, observability, tls)
    services = make_services(
        settings,
        clock,
        catalog,
        messages,
        front.listener_addresses[0],
        process,
        access,
        lambda: front.connection_count + (0 if remoting is None else remoting.connection_count),
        answer_limits,
    )
    process.answers.update(
        (question, functools.partial(answer, services=services)) for question, answer in ABOUT_ITSELF.items()
    )
    stack.push_async_callback(services.orphans.close)
    stack.push_async_callback(front.stop, settings.shutdown_grace_ms / 1000)
    if remoting is not None:
        stack.push_async_callback(remoting.stop, settings.shutdown_grace_ms / 1000)
    stack.callback(messages.end_polls)
    care = BackgroundLoop(
        functools.partial(_maintain_clients, services),
        name="client care",
        what="client maintenance failed",
        every_s=_CLIENT_CARE_S,
    )
    care.start()
    stack.push_async_callback(care.stop)
    tasks = await stack.enter_async_context(BackgroundTasks())
    if services.access.is_on:
        tasks.start(services.access.check_rights_forever(), name="access control")
    if not catalog.is_alone:
        await _share_quotas(services, stack)
    await front.start(services)
    if remoting is not None:
        await remoting.start(services)
    services.history.start_sampling(front.figures)
    stack.push_async_callback(services.history.stop)
    if not catalog.is_embedded:
        heartbeat = ProxyHeartbeat(functools.partial(make_proxy_entry, services), catalog.proxies)
        stack.push_async_callback(heartbeat.stop_heartbeats)
        heartbeat.start_heartbeats()
    messages.watch_orphans(services.orphans.send_check)
    messages.answer_proxies(functools.partial(answer_proxies, services=services))
    notices = LiteNotices(services.clients)
    messages.watch_lite(notices.notify_dropped)
    stack.push_async_callback(notices.close)
    return ServedFronts(front, remoting)


def _create_remoting(
    settings: "FrontSettings", observability: "ProcessObservability", tls: "PortTls | None"
) -> RemotingFront | None:
    listener = settings.remoting_listener
    if listener is None:
        return None
    return RemotingFront(
        listener,
        observability,
        budgets=budgets_of(settings),
        connections_max=connections_max(settings),
        shared=settings.workers > 1,
        tls=tls,
    )


def make_services(
    settings: "FrontSettings",
    clock: "SystemClock",
    catalog: "Catalog",
    messages: "MessageService",
    store_host: str,
    process: ServerProcess | None = None,
    access: AccessControl | None = None,
    connections: "Callable[[], int]" = _no_front,
    answer_limits: AnswerLimits = ANSWER_LIMITS,
) -> Services:
    """Return what activities use; `store_host` is the address of the first listener. `process` may be left out where it
    is not needed; without `access` everything is allowed. `connections` returns how many the front has."""
    # Moving the clock must not expire clients that are alive.
    clients = ClientRegistry(time.monotonic, expiry_s=settings.client_expiry_ms / 1000)
    clients.on_pulling(messages.announce_members)
    handles = HandleForms(lambda: catalog.handle_keys)
    renewal = AutoRenewal(messages, clock.now_ms, catalog.group_or_default)
    clock.on_set(renewal.shift_clock)
    quotas = ClientQuotas()
    catalog.on_quotas(quotas.follow_snapshot)
    return Services(
        process=process or ServerProcess(kind="server", server="server", name="server", settings=settings),
        clock=clock,
        access=access or AccessControl(),
        catalog=catalog,
        handles=handles,
        messages=messages,
        clients=clients,
        renewal=renewal,
        orphans=OrphanChecks(messages, clients, time.monotonic, handles, find_producer_group),
        filters=FilterCache(),
        subscriptions=GroupSubscriptions(),
        placement=QueuePlacement(),
        lite_adds=TokenBucket(LITE_ADDS_PER_S, 1.0, time.monotonic()),
        quotas=quotas,
        limits=MessageLimits(
            body_bytes_max=settings.body_bytes_max,
            properties_max=settings.properties_max,
            properties_bytes_max=settings.properties_bytes_max,
            delay_max_ms=settings.delay_max_ms,
        ),
        request_limits=RequestLimits(
            entries_max=settings.request_entries_max, inflated_bytes_max=settings.request_inflated_bytes_max
        ),
        inflation=InflationRoom(),
        lowest_first=not settings.priority_order_asc,
        delay_levels_ms=parse_delay_levels(settings.delay_levels),
        store_host=store_host,
        long_poll_max_ms=settings.long_poll_max_ms,
        started_ms=clock.now_ms(),
        connections=connections,
        history=FrontHistory(clock.now_ms),
        answer_limits=answer_limits,
    )


async def _share_quotas(services: Services, stack: "AsyncExitStack") -> None:
    catalog = services.catalog
    shares = QuotaShares(services.quotas, name_of(services.process), catalog.proxies.exchange_demand)
    await shares.take_equal_part()
    stack.push_async_callback(shares.give_up_shares, catalog.proxies.remove_proxy)
    tasks = await stack.enter_async_context(BackgroundTasks())
    tasks.start(shares.renew_forever(), name="shares of quotas")


async def expire_silent_clients(services: Services) -> None:
    """Forget the clients that disappeared, and release what they held."""
    turns = WorkTurns()
    names = []
    while gone := services.clients.expire_clients(_GONE_AT_ONCE):
        for client in gone:
            names.append(client.client_id)
            await release_client(client, services)
            await turns.next_turn()
    if names:
        _log.info("disappeared without closing: %s", list_names(names, "clients"))


async def _maintain_clients(services: Services) -> None:
    """Renew messages of living clients, release those of dead ones, and report new subscriptions."""
    await expire_silent_clients(services)
    services.clock.check_for_jump()
    await services.renewal.renew_claims()
    await handle_new_subscriptions(services)
