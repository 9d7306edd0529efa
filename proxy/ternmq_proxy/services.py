"""Everything that an activity may ask, made once for a process."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.clock import SystemClock
    from ternmq_common.filter_cache import FilterCache
    from ternmq_common.limits import MessageLimits, RequestLimits
    from ternmq_proxy.access.control import AccessControl
    from ternmq_proxy.catalog import Catalog
    from ternmq_proxy.front_history import FrontHistory
    from ternmq_proxy.handles import HandleForms
    from ternmq_proxy.message_service.interface import MessageService
    from ternmq_proxy.processors.clients import ClientRegistry
    from ternmq_proxy.processors.inflation import InflationRoom
    from ternmq_proxy.processors.orphan_checks import OrphanChecks
    from ternmq_proxy.processors.placement import QueuePlacement
    from ternmq_proxy.processors.renewal import AutoRenewal
    from ternmq_proxy.processors.subscriptions import GroupSubscriptions
    from ternmq_proxy.quotas.bucket import TokenBucket
    from ternmq_proxy.quotas.quotas import ClientQuotas
    from ternmq_proxy.server_process import ServerProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLimits:
    """How much an answer without pages holds, how far one call goes, and for how long an error of a receive is held
    back: Go and Rust poll again within milliseconds of it, and can't spin so."""

    entries_max: int = 1000
    span_queues_max: int = 4096
    """A topic of as many queues as there may be, on four brokers."""
    walk_steps_max: int = 256
    error_hold_s: float = 1.0


ANSWER_LIMITS = AnswerLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """`store_host` is `host:port` of the first listener, which messages name when they are delivered. `clock` is the
    stack's, for everything that is told to clients or compared with stored times; who is alive is asked of a monotonic
    one. `lite_adds` are additions to subscriptions of lite topics. `lowest_first`: of PRIORITY topics the smaller
    number comes first. `delay_levels_ms` are the waits of the levels of the 4.x property DELAY, from level 1 on.
    `connections` says how many this process has now."""

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
