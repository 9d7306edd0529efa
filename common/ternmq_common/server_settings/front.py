"""Settings of a process that serves clients."""

import re
from dataclasses import dataclass

from ternmq_common.addresses import DEFAULT_GRPC, is_wildcard, parse_address
from ternmq_common.catalog.delay_levels import DEFAULT_DELAY_LEVELS, parse_delay_levels
from ternmq_common.limits import (
    DAY_MS,
    DEFAULT_QUEUES,
    HOUR_MS,
    INBOUND_BYTES_MAX,
    KIB,
    MIB,
    MINUTE_MS,
    POLL_MAX_MS,
    QUEUES_MAX,
    SECOND_MS,
)
from ternmq_common.resources.setting import InvalidSetting, setting
from ternmq_common.server_settings.access import AccessSettings
from ternmq_common.server_settings.listeners import ClientListener, normalize_address, parse_listeners
from ternmq_common.server_settings.quotas import QuotaSettings
from ternmq_common.server_settings.tls import TlsSettings
from ternmq_common.server_settings.traffic import TrafficSettings
from ternmq_common.server_settings.users import UsersSettings

OFF = "off"
"""The value of `remoting` that serves none."""
# No part is `.` or `..`, and nothing needs escaping anywhere.
_PREFIX = re.compile(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9._~-]{1,64}){1,8}", re.ASCII)
# Below these a request with the prefix would be taken for one without it.
_SERVED = re.compile(r"/(api(/v\d+(/.*)?)?|(console|health|metrics|version)(/.*)?)", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class FrontSettings(AccessSettings, QuotaSettings, TlsSettings, TrafficSettings, UsersSettings):
    """Settings of a process that serves clients."""

    grpc: str = setting(
        DEFAULT_GRPC,
        "Address of the gRPC front, or several; port 0 picks a free one. HOST:PORT=HOST:PORT tells clients to "
        "connect to the second, which a load balancer or NodePort forwards here.",
        flag=True, form="HOST:PORT[,HOST:PORT]...",
    )  # fmt: skip
    remoting: str | None = setting(
        None,
        "Address for clients of RocketMQ 4.x, and remoting clients of 5.x: name server and broker at once. `auto` is "
        "127.0.0.1:9876 if that port is free; `off` serves none.",
        flag=True, form="HOST:PORT|off", auto=True, see="remoting.md", since="0.2.0",
    )  # fmt: skip
    advertised_remoting: str | None = setting(
        None,
        "The address that routes name for `remoting`, where clients reach this process by another one than it listens "
        "at; by default the one that each client used.",
        flag=True, form="HOST:PORT", see="remoting.md", since="0.2.0",
    )  # fmt: skip
    workers: int = setting(
        1,
        "Processes that serve clients, on as many cores: each has some of the connections, and limits of its own.",
        within=(1, 64), flag=True, see="configuration.md#workers",
    )  # fmt: skip
    auto_create: bool = setting(
        True,
        "Create topics by the first message that is sent to them, and groups by their first use of a topic.",
        flag=True,
    )
    default_queues: int = setting(
        DEFAULT_QUEUES, "Message queues of a topic that is created without a number.", within=(1, QUEUES_MAX)
    )
    body_bytes_max: int = setting(4 * MIB, "Size of one message's body.", within=(1, INBOUND_BYTES_MAX - MIB))
    properties_bytes_max: int = setting(
        16 * KIB, "Size of one message's user properties, names and values together.", within=(1, MIB)
    )
    properties_max: int = setting(128, "Number of one message's user properties.", within=(1, 1024))
    delay_max_ms: int = setting(
        24 * HOUR_MS, "How far ahead a delayed message may be due.", within=(SECOND_MS, 365 * DAY_MS)
    )
    priority_order_asc: bool = setting(
        True, "Whether the larger number comes first in PRIORITY topics, else the smaller one."
    )
    delay_levels: str = setting(
        DEFAULT_DELAY_LEVELS, "The waits of the levels of the 4.x property DELAY, from level 1 on."
    )
    long_poll_max_ms: int = setting(
        POLL_MAX_MS, "How long a receive may wait for a message.", within=(SECOND_MS, 10 * MINUTE_MS)
    )
    client_expiry_ms: int = setting(
        120 * SECOND_MS, "After which silence a client is forgotten.", within=(10 * SECOND_MS, DAY_MS)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            taken = [normalize_address(listener.address) for listener in self.grpc_listeners]
        except ValueError as error:
            raise InvalidSetting("grpc", str(error)) from None
        if normalize_address(self.http) in taken and normalize_address(self.http)[1] != 0:
            raise InvalidSetting("http", "the gRPC front has this address already")
        if self.admin is not None:
            self._check_address("admin")
            if (
                normalize_address(self.admin) in (*taken, normalize_address(self.http))
                and normalize_address(self.admin)[1] != 0
            ):
                raise InvalidSetting("admin", "the gRPC front or HTTP has this address already")
        self._check_remoting()
        if self.console_grafana and not self.console_grafana.startswith(("https://", "http://")):
            raise InvalidSetting("console_grafana", "it is no address, such as https://...")
        if self.console_prefix and not _PREFIX.fullmatch(self.console_prefix):
            raise InvalidSetting("console_prefix", "it is no path, such as /mq or /ops/mq")
        if _SERVED.fullmatch(self.console_prefix):
            raise InvalidSetting("console_prefix", "this server uses paths below it itself; /mq or /ops/mq can be used")
        try:
            parse_delay_levels(self.delay_levels)
        except ValueError as error:
            raise InvalidSetting("delay_levels", str(error)) from None

    def _check_remoting(self) -> None:
        if self.advertised_remoting is not None:
            self._check_address("advertised_remoting")
            host, port = parse_address(self.advertised_remoting)
            if port == 0 or is_wildcard(host):
                raise InvalidSetting(
                    "advertised_remoting", "no client can connect to it; name the host and port that clients shall use"
                )
        if self.remoting in (None, OFF):
            return
        self._check_address("remoting")
        taken = [normalize_address(address) for address in (*self.grpc_addresses, self.http)]
        own = normalize_address(self.remoting or "")
        if own in taken and own[1] != 0:
            raise InvalidSetting("remoting", "the gRPC front or HTTP has this address already")

    @property
    def remoting_listener(self) -> ClientListener | None:
        """The listener for the remoting protocol; None if there is none, or it is not decided yet (`auto`)."""
        if self.remoting is None or self.remoting == OFF:
            return None
        return ClientListener(self.remoting, self.advertised_remoting)

    @property
    def grpc_addresses(self) -> list[str]:
        """The addresses of all gRPC listeners, the admin listener last."""
        return [*(listener.address for listener in self.grpc_listeners), *([] if self.admin is None else [self.admin])]

    @property
    def grpc_listeners(self) -> tuple[ClientListener, ...]:
        """The listeners of `grpc`, in its order; at least one."""
        return parse_listeners(self.grpc)
