"""Everything that activities use, created once for a process."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.clock import SystemClock
    from ternmq_common.filters.filter_cache import FilterCache
    from ternmq_common.limits import MessageLimits, RequestLimits
    from ternmq_common.pacing.bucket import TokenBucket
    from ternmq_proxy.access.control import AccessControl
    from ternmq_proxy.catalog.catalog import Catalog
    from ternmq_proxy.handles import HandleForms
    from ternmq_proxy.message_service.interface import MessageService
    from ternmq_proxy.processors.clients import ClientRegistry
    from ternmq_proxy.processors.orphan_checks import OrphanChecks
    from ternmq_proxy.processors.renewal import AutoRenewal
    from ternmq_proxy.processors.sending.inflation import InflationRoom
    from ternmq_proxy.processors.sending.placement import QueuePlacement
    from ternmq_proxy.processors.subscriptions import GroupSubscriptions
    from ternmq_proxy.quotas.quotas import ClientQuotas
    from ternmq_proxy.server.front_history import FrontHistory
    from ternmq_proxy.server_process import ServerProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLimits:
    """Limits of answers without pages and of single calls, and for how long an error of a receive is held back: Go and
    Rust poll again within milliseconds of an error, and must not spin."""

    entries_max: int = 1000
    span_queues_max: int = 4096
    """A topic with the most queues that are possible, on four brokers."""
    walk_steps_max: int = 256
    error_hold_s: float = 1.0


ANSWER_LIMITS = AnswerLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services. `store_host` is `host:port` of the first listener, which delivered messages name. `clock` is the
    stack's, for everything that clients see or that is compared with stored times; a monotonic one decides which
    clients are alive. `lite_adds` limits additions of lite subscriptions. `lowest_first`: of PRIORITY topics the
    smaller number comes first. `delay_levels_ms` are the delays of the levels of the 4.x property DELAY, from level 1
    on. `connections` returns how many this process has now."""

    process: "ServerProcess"
    clock: "SystemClock"
    access: "AccessControl"
    catalog: "Catalog"
    handles: "HandleForms"
    messages: "MessageService"
    clients: "ClientRegistry"
    renewal: "AutoRenewal"
    orphans: "OrphanChecks"
    filters: "FilterCache"
    subscriptions: "GroupSubscriptions"
    placement: "QueuePlacement"
    lite_adds: "TokenBucket"
    quotas: "ClientQuotas"
    limits: "MessageLimits"
    request_limits: "RequestLimits"
    inflation: "InflationRoom"
    lowest_first: bool
    delay_levels_ms: tuple[int, ...]
    store_host: str
    long_poll_max_ms: int
    started_ms: int
    connections: "Callable[[], int]"
    history: "FrontHistory"
    answer_limits: AnswerLimits = ANSWER_LIMITS
