"""Settings that limit what the clients of a process can make grow."""

from dataclasses import dataclass

from ternmq_common.limits import DAY_MS, GIB, HOUR_MS, INBOUND_BYTES_MAX, KIB, MIB, MINUTE_MS, SECOND_MS
from ternmq_common.resources.setting import setting
from ternmq_common.server_settings.process import ProcessSettings


@dataclass(frozen=True, kw_only=True)
class TrafficSettings(ProcessSettings):
    """Limits of what the clients of a process can make grow, and of how long something may stay half done.

    Beyond a limit the call ends, or the connection: nothing else of the process suffers from it.
    """

    connections_max: int | None = setting(
        None,
        "Connections of clients at the same time, of which more wait; auto: what the limit of file descriptors "
        "leaves, which the server raises first.",
        within=(1, 1_000_000), auto=True,
    )  # fmt: skip
    connection_streams_max: int = setting(
        4096,
        "Calls that one connection may have under way. A push consumer has a poll waiting for each topic that it "
        "may subscribe to, or each message queue, and what it calls beyond waits in the client, acknowledgements "
        "too.",
        within=(1, 100_000),
    )
    request_bytes_max: int = setting(
        32 * MIB,
        "Size of one request; the largest body that is allowed fits in any case.",
        within=(64 * KIB, INBOUND_BYTES_MAX),
    )
    request_entries_max: int = setting(
        1024, "Messages, receipt handles or other entries of one request.", within=(1, 100_000)
    )
    request_inflated_bytes_max: int = setting(
        32 * MIB,
        "Size that all compressed bodies of one request may have when they are inflated.",
        within=(KIB, GIB),
    )
    connection_in_bytes_max: int = setting(
        16 * MIB,
        "Bytes of requests that one connection may have under way; then it waits, or gets more while much is left.",
        within=(MIB, GIB), expert=True,
    )  # fmt: skip
    in_bytes_max: int = setting(
        96 * MIB,
        "Bytes of requests under way on all connections; beyond, the connection that has most of them is closed.",
        within=(MIB, 64 * GIB), expert=True,
    )  # fmt: skip
    connection_out_bytes_max: int = setting(
        8 * MIB,
        "Bytes of answers that one client has not read; it gets no more messages until it reads.",
        within=(64 * KIB, GIB), expert=True,
    )  # fmt: skip
    out_bytes_max: int = setting(
        64 * MIB,
        "Bytes of answers that all clients have not read; beyond, clients that read nothing lose their connection.",
        within=(MIB, 64 * GIB), expert=True,
    )  # fmt: skip
    control_frames_per_second: int = setting(
        1000,
        "Frames that request nothing (PING, SETTINGS, empty ones) a connection may send each second, beside its "
        "calls; a burst may have twice as many, or as many as it may have calls.",
        within=(10, 1_000_000), expert=True,
    )  # fmt: skip
    resets_per_second: int = setting(
        200, "Calls that a connection may break off each second.", within=(1, 100_000), expert=True
    )
    header_timeout_ms: int = setting(
        10 * SECOND_MS,
        "How long a greeting, a block of headers or the head of an HTTP request may take.",
        within=(100, 10 * MINUTE_MS), expert=True,
    )  # fmt: skip
    body_timeout_ms: int = setting(
        30 * SECOND_MS,
        "How long a request may take to come; a large one a second more for each 64 KiB.",
        within=(100, HOUR_MS), expert=True,
    )  # fmt: skip
    output_timeout_ms: int = setting(
        MINUTE_MS,
        "A connection is closed when its client has read nothing of what waits for it for this long.",
        within=(100, HOUR_MS), expert=True,
    )  # fmt: skip
    connection_idle_ms: int = setting(
        10 * MINUTE_MS,
        "A connection without calls is closed after this time, or after 10 seconds when no other connection fits.",
        within=(SECOND_MS, DAY_MS), expert=True,
    )  # fmt: skip
    keepalive_ms: int = setting(
        2 * MINUTE_MS,
        "A connection on which nothing came for this long gets a ping.",
        within=(SECOND_MS, DAY_MS), expert=True,
    )  # fmt: skip
    keepalive_timeout_ms: int = setting(
        20 * SECOND_MS,
        "How long that sign may take before the connection is closed.",
        within=(100, HOUR_MS), expert=True,
    )  # fmt: skip
    auto_create_per_minute: int = setting(
        120,
        "Topics and groups that clients may have created by using them, each minute; beyond, the use is refused "
        "with TOO_MANY_REQUESTS.",
        within=(1, 1_000_000),
    )
