"""Converts the settings of traffic to what the server of calls takes."""

import resource
from typing import TYPE_CHECKING, Final

from ternmq_common.limits import MIB
from ternmq_rpc.serving.budgets import ConnectionBudgets

if TYPE_CHECKING:
    from ternmq_common.server_settings import FrontSettings

# Descriptors for files of store and registry, and for listeners: a tenth of all, within these bounds.
_KEPT_MIN, _KEPT_MAX = 64, 512
# Connections of operators, who have a listener of their own.
ADMIN_CONNECTIONS_MAX: Final = 64
_AROUND_BODY = MIB
_MANY = 1_000_000


def budgets_of(settings: "FrontSettings") -> ConnectionBudgets:
    """Return the budgets of the gRPC front."""
    return ConnectionBudgets(
        message_bytes_max=max(settings.request_bytes_max, settings.body_bytes_max + _AROUND_BODY),
        streams_max=settings.connection_streams_max,
        connection_in_bytes_max=settings.connection_in_bytes_max,
        in_bytes_max=settings.in_bytes_max,
        connection_out_bytes_max=settings.connection_out_bytes_max,
        out_bytes_max=settings.out_bytes_max,
        control_frames_per_s=settings.control_frames_per_second,
        resets_per_s=settings.resets_per_second,
        header_timeout_s=settings.header_timeout_ms / 1000,
        body_timeout_s=settings.body_timeout_ms / 1000,
        output_timeout_s=settings.output_timeout_ms / 1000,
        idle_s=settings.connection_idle_ms / 1000,
        keepalive_s=settings.keepalive_ms / 1000,
        keepalive_timeout_s=settings.keepalive_timeout_ms / 1000,
    )


def connections_max(settings: "FrontSettings") -> int:
    """Return how many connections are allowed: the setting, or what the limit of file descriptors leaves."""
    if settings.connections_max is not None:
        return settings.connections_max
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return _MANY
    kept = min(max(limit // 10, _KEPT_MIN), _KEPT_MAX)
    operators = 0 if settings.admin is None else ADMIN_CONNECTIONS_MAX
    return max(1, limit - kept - operators)
