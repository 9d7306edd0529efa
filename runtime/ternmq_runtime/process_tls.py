"""TLS of a process by its settings: files are read at the start, and again when they change or SIGHUP is received."""

import asyncio
import functools
import signal
import threading
from typing import TYPE_CHECKING, Any

from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.server_settings import CertificateSettings, ClientAuth, ClusterTlsSettings, TlsMode, TlsSettings
from ternmq_rpc.tls.contexts import FrontContexts, MemberContexts, create_front_contexts, create_member_contexts
from ternmq_rpc.tls.files import TlsFiles
from ternmq_rpc.tls.opening import PortTls
from ternmq_rpc.tls.reloading import ReloadedFiles, poll_files
from ternmq_runtime.observability.figures import CertificateFigures

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from contextlib import AsyncExitStack

SERVER, CLUSTER = "server", "cluster"


class ProcessTls:
    """The TLS of a process. Everything is None where the settings have no certificate for it."""

    def __init__(
        self,
        settings: CertificateSettings,
        front: ReloadedFiles[FrontContexts] | None,
        member: ReloadedFiles[MemberContexts] | None,
    ) -> None:
        self._settings = settings
        self._front = front
        self._member = member

    @classmethod
    async def load_files(
        cls,
        settings: CertificateSettings,
        stack: "AsyncExitStack",
    ) -> "ProcessTls":
        """Read the files, and reload them until the stack ends. StartupError."""
        front = await asyncio.to_thread(_load_front, settings)
        of_cluster = await asyncio.to_thread(_load_member, settings)
        watched: list[ReloadedFiles[Any]] = [each for each in (front, of_cluster) if each is not None]
        if watched:
            _watch_files(watched, stack)
        return cls(settings, front, of_cluster)

    @property
    def grpc(self) -> PortTls | None:
        """TLS of the gRPC front."""
        settings = self._settings
        mode = settings.grpc_tls_mode if isinstance(settings, TlsSettings) else TlsMode.OFF
        return self._create_port(mode, lambda contexts: contexts.grpc)

    @property
    def http(self) -> PortTls | None:
        """TLS of HTTP."""
        return self._create_port(self._settings.http_tls_mode, lambda contexts: contexts.http)

    def _create_port(self, mode: TlsMode, of: "Callable[[FrontContexts], ssl.SSLContext]") -> PortTls | None:
        front = self._front
        if front is None or mode is TlsMode.OFF:
            return None
        per_second = self._settings.tls_handshakes_per_second
        return PortTls(
            lambda: of(front.current), allow_plain=mode is TlsMode.OPTIONAL, handshakes_per_second=per_second
        )

    @property
    def storage(self) -> PortTls | None:
        """TLS of a broker's storage service; with a certificate no proxy is served without it."""
        member = self._member
        if member is None:
            return None
        per_second = self._settings.tls_handshakes_per_second
        return PortTls(lambda: member.current.server, allow_plain=False, handshakes_per_second=per_second)

    @property
    def to_brokers(self) -> "Callable[[], ssl.SSLContext] | None":
        """Returns the context by which a proxy or a replica connects; called for each connection."""
        member = self._member
        return None if member is None else lambda: member.current.client

    def certificate_figures(self) -> list[CertificateFigures]:
        """Return the figures of each certificate; for any thread."""
        there = (self._front, self._member)
        return [CertificateFigures(each.name, each.left_s) for each in there if each is not None]


def _load_front(settings: CertificateSettings) -> ReloadedFiles[FrontContexts] | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    auth, ca = ClientAuth.NONE, None
    if isinstance(settings, TlsSettings) and settings.client_auth is not ClientAuth.NONE:
        auth, ca = settings.client_auth, settings.tls_client_ca
    files = TlsFiles(prefix="tls", cert=settings.tls_cert, key=settings.tls_key, ca=ca, ca_setting="tls_client_ca")
    make = functools.partial(create_front_contexts, auth=auth, least=settings.tls_min_version)
    return ReloadedFiles(SERVER, files, make)


def _load_member(settings: CertificateSettings) -> ReloadedFiles[MemberContexts] | None:
    if not isinstance(settings, ClusterTlsSettings):
        return None
    cert, key, ca = settings.cluster_tls_cert, settings.cluster_tls_key, settings.cluster_tls_ca
    if cert is None or key is None or ca is None:
        return None
    files = TlsFiles(prefix="cluster_tls", cert=cert, key=key, ca=ca, ca_setting="cluster_tls_ca")
    return ReloadedFiles(CLUSTER, files, create_member_contexts)


def _watch_files(watched: "list[ReloadedFiles[Any]]", stack: "AsyncExitStack") -> None:
    loop = asyncio.get_running_loop()
    hurry = asyncio.Event()
    # A stack in a thread of a test gets no signals.
    if threading.current_thread() is threading.main_thread():
        loop.add_signal_handler(signal.SIGHUP, hurry.set)
        stack.callback(loop.remove_signal_handler, signal.SIGHUP)
    tasks = BackgroundTasks()
    tasks.start(poll_files(watched, hurry), name="watch over certificates")
    stack.push_async_callback(tasks.stop)
