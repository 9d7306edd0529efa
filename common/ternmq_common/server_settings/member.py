"""Settings of the processes of a cluster."""

import re
from dataclasses import dataclass
from pathlib import Path

from ternmq_common.addresses import is_wildcard, parse_address
from ternmq_common.catalog.cluster import REPLICAS_MAX, ReplicationMode
from ternmq_common.limits import DAY_MS, GIB, HOUR_MS, KIB, MIB, MINUTE_MS, SECOND_MS
from ternmq_common.resources.setting import InvalidSetting, setting, without_password
from ternmq_common.server_settings.front import FrontSettings
from ternmq_common.server_settings.process import ProcessSettings
from ternmq_common.server_settings.storage import MEMBER_NAME, MEMBER_NAME_ALLOWED, StorageSettings
from ternmq_common.server_settings.tls import CertificateSettings, ClusterTlsSettings

DEFAULT_STORAGE = "127.0.0.1:10911"
STORE_ID = re.compile(r"[0-9a-f]{32}")
DEFAULT_REGISTRY = "postgresql://ternmq@127.0.0.1:5432/ternmq"


@dataclass(frozen=True, kw_only=True)
class MemberSettings(ProcessSettings):
    """Settings of a process of a cluster."""

    registry: str = setting(
        DEFAULT_REGISTRY,
        "The PostgreSQL database that all processes of the cluster share, postgresql://USER@HOST/NAME; a password "
        "may be in $PGPASSWORD.",
        flag=True, form="URL",
    )  # fmt: skip
    registry_password_file: Path | None = setting(
        None,
        "File with the password of the registry's user, read again for each connection, so that another password "
        "needs no restart; none: that of the URL, or of $PGPASSWORD.",
        flag=True,
    )
    registry_wait_ms: int = setting(
        30 * SECOND_MS,
        "How long to wait for the registry at the start before giving up, if there is no copy of it to start with.",
        within=(0, HOUR_MS), expert=True, see="backup.md#the-registry-is-away",
    )  # fmt: skip
    registry_copy_max_age_ms: int = setting(
        DAY_MS,
        "How old the copy of the registry may be with which a process begins while the registry is away; 0: as old "
        "as it is.",
        within=(0, 3650 * DAY_MS), see="backup.md#the-registry-is-away",
    )  # fmt: skip
    clock_skew_warn_ms: int = setting(
        SECOND_MS,
        "How far this machine's clock may be from the registry's before that is logged.",
        within=(10, HOUR_MS), expert=True, see="operations.md",
    )  # fmt: skip
    clock_skew_max_ms: int = setting(
        MINUTE_MS,
        "From which difference on timed messages are not accepted and not delivered, and nothing is removed for its "
        "age, until the clock is right; 0: never.",
        within=(0, DAY_MS), expert=True, see="operations.md",
    )  # fmt: skip

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

    storage: str = setting(
        DEFAULT_STORAGE,
        "Address of the storage service, which proxies call; port 0 picks a free one.",
        flag=True, form="HOST:PORT",
    )  # fmt: skip
    advertised_storage: str | None = setting(
        None,
        "Address by which proxies reach the storage service; none: the one it listens on.",
        flag=True, form="HOST:PORT",
    )  # fmt: skip
    rejoin: bool = setting(False, "Join again although this broker was removed from the cluster.", flag=True)
    accept_empty_store: str = setting(
        "",
        "The id of the broker's store in the registry, which is lost for good: an empty store replaces it. After "
        "that the setting has no effect; another loss has another id.",
        flag=True, form="STORE-ID",
    )  # fmt: skip
    lease_ms: int = setting(
        6 * SECOND_MS,
        "How long the broker stays in the routes without a heartbeat; one is sent three times as often.",
        within=(SECOND_MS, MINUTE_MS),
    )
    replicas: int = setting(
        1,
        "How many copies the shard shall have, each a process with a data directory of its own; 1: only this one.",
        within=(1, REPLICAS_MAX), flag=True, see="durability.md",
    )  # fmt: skip
    replica_name: str = setting(
        "",
        "The name of this one among the shard's replicas; empty: a name with the beginning of its store's id.",
        flag=True, form="NAME", see="durability.md",
    )  # fmt: skip
    min_insync: int = setting(
        0,
        "How many replicas must have a message before it is acknowledged; 0: a majority.",
        within=(0, REPLICAS_MAX), flag=True, see="durability.md",
    )  # fmt: skip
    replication: ReplicationMode = setting(
        ReplicationMode.SYNC,
        "When a send is answered: when all in-sync replicas have the message, or when the leader has it.",
        flag=True, see="durability.md",
    )  # fmt: skip
    replica_lag_ms: int = setting(
        1500,
        "How long a follower may be behind before it is not in sync any more.",
        within=(100, MINUTE_MS), see="durability.md",
    )  # fmt: skip
    catch_up_bytes_per_second: int = setting(
        16 * MIB,
        "Bytes a second that the leader gives a replica that is far behind, so that what is live keeps its latency.",
        within=(64 * KIB, 64 * GIB), see="durability.md",
    )  # fmt: skip

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

    proxy_name: str = setting(
        "",
        "The name of this proxy at brokers and in logs; empty: the machine's name and the process's number.",
        flag=True, form="NAME",
    )  # fmt: skip
    cache_dir: Path | None = setting(
        None,
        "Folder for a copy of the registry, with which the proxy starts while the registry is away; only its user "
        "may read it, as it has keys. none: no copy is kept.",
        flag=True, form="FOLDER", see="backup.md#the-registry-is-away",
    )  # fmt: skip
    read_from_followers: bool = setting(
        False,
        "Read what consumers pull far behind the ends of queues from followers, not from the leader.",
        flag=True, see="durability.md#reads-from-followers",
    )  # fmt: skip
