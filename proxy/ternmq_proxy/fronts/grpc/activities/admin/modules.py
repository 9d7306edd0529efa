"""The modules that answer calls of our Admin service: each by the function of its name (`calls.py`)."""

from ternmq_proxy.fronts.grpc.activities.admin import (
    audit,
    brokers,
    clients,
    clock,
    groups,
    history,
    messages,
    proxies,
    quotas,
    server,
    shards,
    timers,
    topics,
    transactions,
    users,
)

MODULES = (
    audit,
    brokers,
    clients,
    clock,
    groups,
    history,
    messages,
    proxies,
    quotas,
    server,
    shards,
    timers,
    topics,
    transactions,
    users,
)
