"""The container image in a test, by the library testcontainers: for test suites in any language.

    with TernmqContainer("ternmq:latest") as broker:
        broker.create_topic("orders")
        run_application(broker.endpoint)

Needs Docker. For tests of a Python application `ternmq.testing.Stack` is simpler, and needs no Docker. testcontainers
starts a container of its own that cleans up after a test run that was killed; where its image isn't available, set the
variable TESTCONTAINERS_RYUK_DISABLED=true.
"""

from typing import Self

from ternmq.testing.controls import Controls
from ternmq.testing.known_settings import check_names
from ternmq_common.installing import install_hint
from ternmq_common.resources.setting import settings_of
from ternmq_common.server_settings import ServerSettings

try:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"the packages for containers are not installed ({missing.name} is missing): {install_hint('testing')}",
        name=missing.name,
    ) from None

GRPC_PORT = 8081
HTTP_PORT = 8082
START_TIMEOUT_S = 60
POLL_S = 0.05
# The image's command line sets these; the ports are mapped, and the folder is its volume.
OF_THE_IMAGE = frozenset({"grpc", "http", "data_dir"})


class TernmqContainer(DockerContainer, Controls):
    """A broker in a container of its own, removed with all its data at the end.

    `settings` are those of `ternmq config` (`transaction_timeout_ms="2s"`); by default the clock is one that `advance`
    moves. Everything that testcontainers can do with a container works with this one:
    `.with_network(...)`, `.with_volume_mapping(...)` before the start, `.get_logs()` after it.

    `endpoint` and `http` are for clients of this machine, through mapped ports; containers of the same network use the
    container's name and port 8081. Both work, since a server names to its clients the address by which they came.
    """

    def __init__(self, image: str = "ternmq:latest", **settings: object) -> None:
        check_names(settings, without=OF_THE_IMAGE)
        super().__init__(image)
        for name, value in ({"test_clock": True} | settings).items():
            self.with_env(settings_of(ServerSettings)[name].variable, str(value))
        self.with_exposed_ports(GRPC_PORT, HTTP_PORT)
        ready = LogMessageWaitStrategy("^ready grpc=").with_poll_interval(POLL_S)
        self.waiting_for(ready.with_startup_timeout(START_TIMEOUT_S))

    def start(self) -> Self:
        """Start it, and return once it serves; if it doesn't, the error has its log."""
        try:
            return super().start()
        except RuntimeError as error:
            _, log = self.get_logs()
            error.add_note(log.decode(errors="replace"))
            raise

    @property
    def endpoint(self) -> str:
        return self._mapped_address(GRPC_PORT)

    @property
    def http(self) -> str:
        """The address of the server's health, `host:port`."""
        return self._mapped_address(HTTP_PORT)

    def _mapped_address(self, port: int) -> str:
        host = self.get_container_host_ip()
        # A port may be mapped for IPv4 only, and `localhost` may mean IPv6 first.
        return f"{'127.0.0.1' if host == 'localhost' else host}:{self.get_exposed_port(port)}"
