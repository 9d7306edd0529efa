"""Settings of the processes: `ternmq up`, `ternmq broker`, `ternmq proxy`. Sizes in bytes, times in milliseconds;
checked once, at start."""

from ternmq_common.catalog.cluster import FlushMode
from ternmq_common.server_settings.exposure import find_exposure
from ternmq_common.server_settings.front import FrontSettings
from ternmq_common.server_settings.listeners import ClientListener, parse_listeners
from ternmq_common.server_settings.member import BrokerServerSettings, MemberSettings, ProxySettings
from ternmq_common.server_settings.process import EventLoop, LogFormat, ProcessSettings
from ternmq_common.server_settings.server import ServerSettings
from ternmq_common.server_settings.storage import StorageSettings
from ternmq_common.server_settings.tls import (
    CertificateSettings,
    ClientAuth,
    ClusterTlsSettings,
    TlsMode,
    TlsSettings,
    TlsVersion,
)
from ternmq_common.server_settings.traffic import TrafficSettings
from ternmq_common.server_settings.users import UsersSettings

__all__ = [
    "BrokerServerSettings",
    "CertificateSettings",
    "ClientAuth",
    "ClientListener",
    "ClusterTlsSettings",
    "EventLoop",
    "FlushMode",
    "FrontSettings",
    "LogFormat",
    "MemberSettings",
    "ProcessSettings",
    "ProxySettings",
    "ServerSettings",
    "StorageSettings",
    "TlsMode",
    "TlsSettings",
    "TlsVersion",
    "TrafficSettings",
    "UsersSettings",
    "find_exposure",
    "parse_listeners",
]
