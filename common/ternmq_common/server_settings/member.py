"""Settings of the processes of a cluster."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from ternmq_common.addresses import is_wildcard, parse_address
from ternmq_common.cluster import ReplicationMode
from ternmq_common.limits import DAY_MS, MIB, MINUTE_MS, SECOND_MS
from ternmq_common.server_settings.front import FrontSettings
from ternmq_common.server_settings.process import ProcessSettings
from ternmq_common.server_settings.storage import MEMBER_NAME, MEMBER_NAME_ALLOWED, StorageSettings
from ternmq_common.server_settings.tls import CertificateSettings, ClusterTlsSettings
from ternmq_common.settings import InvalidSetting, without_password

DEFAULT_STORAGE = "127.0.0.1:10911"
STORE_ID = re.compile(r"[0-9a-f]{32}")
DEFAULT_REGISTRY = "postgresql://ternmq@127.0.0.1:5432/ternmq"


@dataclass(frozen=True, kw_only=True)
class MemberSettings(ProcessSettings):
    """Settings of a process of a cluster."""

    registry: str = DEFAULT_REGISTRY
    """URL of the PostgreSQL database that all processes of the cluster share; a password may be in $PGPASSWORD."""

    registry_password_file: Path | None = None
    """File with the password of the registry's user, read again for each connection, so that another password needs no
    restart; none: that of the URL, or of $PGPASSWORD."""

    registry_wait_ms: int = 30 * SECOND_MS
    """Milliseconds to wait for the registry at the start before giving up, if there is no copy of it to start with."""

    registry_copy_max_age_ms: int = DAY_MS
    """How old the copy of the registry may be, in milliseconds, with which a process begins while the registry is away;
    0: as old as it is."""

    clock_skew_warn_ms: int = SECOND_MS
    """How far this machine's clock may be from the registry's, in milliseconds, before that is logged."""

    clock_skew_max_ms: int = MINUTE_MS
    """From which difference on, in milliseconds, timed messages are not accepted and not delivered, and nothing is
    removed for its age, until the clock is right; 0: never."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if 0 < self.clock_skew_max_ms < self.clock_skew_warn_ms:
            raise InvalidSetting("clock_skew_max_ms", "0, or no less than clock_skew_warn_ms, is allowed")
        if self.registry_password_file is not None and without_password(self.registry) != self.registry:
            raise InvalidSetting(
                "registry_password_file", "a password is in the URL too (registry); one of both is needed"
            )


@dataclass(frozen=True, kw_only=True)
class BrokerServerSettings(StorageSettings, CertificateSettings, ClusterTlsSettings, MemberSettings):
    """`ternmq broker`: one shard of a cluster, or one of its replicas."""

    storage: str = DEFAULT_STORAGE
    """HOST:PORT of the storage service, which proxies call; port 0 picks a free one."""

    advertised_storage: str | None = None
    """HOST:PORT by which proxies reach the storage service; none: the one it listens on."""

    rejoin: bool = False
    """Join again although this broker was removed from the cluster."""

    accept_empty_store: str = ""
    """The id of the broker's store in the registry, which is lost for good: an empty store replaces it. After that the
    setting has no effect; another loss has another id."""

    lease_ms: int = 6 * SECOND_MS
    """How long the broker stays in the routes without a heartbeat; one is sent three times as often."""

    replicas: int = 1
    """How many copies the shard shall have, each a process with a data directory of its own; 1: only this one."""

    replica_name: str = ""
    """The name of this one among the shard's replicas; empty: a name with the beginning of its store's id."""

    min_insync: int = 0
    """How many replicas must have a message before it is acknowledged; 0: a majority."""

    replication: ReplicationMode = ReplicationMode.SYNC
    """When a send is answered: when all in-sync replicas have the message, or when the leader has it."""

    replica_lag_ms: int = 1500
    """How long a follower may be behind, in milliseconds, before it is not in sync any more."""

    catch_up_bytes_per_second: int = field(default=16 * MIB, metadata={"flag": "--catch-up-rate"})
    """Bytes a second that the leader gives a replica that is far behind, so that what is live keeps its latency."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.replica_name and not MEMBER_NAME.fullmatch(self.replica_name):
            raise InvalidSetting("replica_name", MEMBER_NAME_ALLOWED)
        if self.accept_empty_store and not STORE_ID.fullmatch(self.accept_empty_store):
            raise InvalidSetting("accept_empty_store", "the store's id is needed, 32 digits and letters a to f")
        if self.min_insync > self.replicas:
            raise InvalidSetting("min_insync", f"at most {self.replicas}, the number of replicas, is allowed")
        self._check_address("storage")
        if self.advertised_storage is not None:
            self._check_address("advertised_storage")
        elif is_wildcard(parse_address(self.storage)[0]):
            raise InvalidSetting(
                "advertised_storage", "HOST:PORT by which proxies reach this broker is needed, as storage names no host"
            )


@dataclass(frozen=True, kw_only=True)
class ProxySettings(FrontSettings, ClusterTlsSettings, MemberSettings):
    """`ternmq proxy`: one of any number of proxies of a cluster, none of which keeps anything that it needs."""

    proxy_name: str = ""
    """The name of this proxy at brokers and in logs; empty: the machine's name and the process's number."""

    cache_dir: Path | None = None
    """Folder for a copy of the registry, with which the proxy starts while the registry is away; only its user may read
    it, as it has keys. none: no copy is kept."""

    read_from_followers: bool = False
    """Read what consumers pull far behind the ends of queues from followers, not from the leader."""
