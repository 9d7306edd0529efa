"""The modules that answer calls of the published Admin service: each by the function of its name (`calls.py`)."""

from ternmq_proxy.fronts.grpc.activities.published_admin import (
    accumulation,
    consumers,
    message_query,
    not_served,
    offsets,
    sending,
    server,
    subscriptions,
    time_span,
    topics,
)

MODULES = (
    accumulation,
    consumers,
    message_query,
    not_served,
    offsets,
    sending,
    server,
    subscriptions,
    time_span,
    topics,
)
