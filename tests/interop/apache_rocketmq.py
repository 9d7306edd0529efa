"""Apache RocketMQ 5.5.0 beside the project, as the peer that defines what "compatible" means.

Jars        come once from the Maven repository that `mvn` is set up for, into the user's cache folder.
Processes   a name server and a proxy in local mode, which holds the broker, or, clustered, a broker and a proxy apart;
            all end with the `with` block.
Ports       free ones, all on 127.0.0.1; the broker also listens on its own port - 2 and on the HA port.
Data        in a temporary folder that goes away with the processes.

As a program: brings it up with topic TopicTest and group GroupTest, prints `ready grpc=127.0.0.1:PORT` and stays until
SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import grpc

from ternmq_protos.v2 import definition_pb2, service_pb2
from tests.support.maven import jars
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

VERSION = "5.5.0"
HOST = "127.0.0.1"
ARTIFACTS = ("rocketmq-namesrv", "rocketmq-proxy", "rocketmq-tools")
START_TIMEOUT_S = 120
ADMIN_TIMEOUT_S = 60
ROUTE_LOOK_S = 0.1

# The broker and its native memory reach into the platform, which newer Java versions allow only when told so.
JAVA_ACCESS = (
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)


class ApacheRocketMQ:
    """A running Apache RocketMQ: `with ApacheRocketMQ() as peer: ... peer.endpoint`.

    Settings of the broker that are to differ from those below may be given by name, as in
    `ApacheRocketMQ(transactionTimeOut=1000)`.

    Invariant: between `__enter__` and `__exit__` both processes run, the gRPC port accepted a connection, and nothing
    else on this machine depends on the ports.
    """

    # Of the broker and of the proxy; what measures it gives it more than tests need.
    java_options: ClassVar[Sequence[str]] = ("-Xms256m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m")

    def __init__(self, clustered: bool = False, /, **broker_settings: str | int) -> None:
        self._clustered = clustered
        self._processes: list[_Process] = []
        self._changed_settings = broker_settings
        self._cleanup = ExitStack()
        self._namesrv_port, self._grpc_port, self._remoting_port = free_port(), free_port(), free_port()
        self._broker_port, self._ha_port = free_broker_port(), free_port()

    @property
    def endpoint(self) -> str:
        """Where gRPC clients connect."""
        return f"{HOST}:{self._grpc_port}"

    @property
    def namesrv_address(self) -> str:
        """Where the name server is."""
        return f"{HOST}:{self._namesrv_port}"

    @property
    def broker_address(self) -> str:
        """Where the broker itself serves the remoting protocol."""
        return f"{HOST}:{self._broker_port}"

    def __enter__(self) -> Self:
        self._classpath = f"{jar_folder()}/*"
        with ExitStack() as started:
            folder = tempfile.mkdtemp(prefix="apache-rocketmq-")
            self._home = Path(folder)
            started.callback(shutil.rmtree, folder, ignore_errors=True)
            self._start_namesrv(started)
            if self._clustered:
                self._start_broker(started)
            self._start_proxy(started)
            self._cleanup = started.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    @property
    def pids(self) -> list[int]:
        """Of all processes."""
        return [process.pid for process in self._processes]

    def create_topic(self, name: str, type: str = "NORMAL", *, queues: int = 4) -> None:  # noqa: A002
        """Create a topic of type NORMAL, FIFO, DELAY, TRANSACTION, MIXED, PRIORITY or LITE."""
        attributes = f"+message.type={type}"
        self.admin("updateTopic", "-t", name, "-r", str(queues), "-w", str(queues), "-a", attributes)
        self.wait_for_route(name)

    def wait_for_route(self, topic: str) -> None:
        """The broker tells the name server of a topic after it has told us: clients that are faster are refused."""
        request = service_pb2.QueryRouteRequest(topic={"name": topic})
        request.endpoints.scheme = definition_pb2.IPv4
        request.endpoints.addresses.add(host=HOST, port=self._grpc_port)
        with grpc.insecure_channel(self.endpoint) as channel:
            query = channel.unary_unary(
                "/apache.rocketmq.v2.MessagingService/QueryRoute",
                request_serializer=service_pb2.QueryRouteRequest.SerializeToString,
                response_deserializer=service_pb2.QueryRouteResponse.FromString,
            )
            deadline = time.monotonic() + ADMIN_TIMEOUT_S
            while True:
                status = query(request, timeout=ADMIN_TIMEOUT_S, metadata=self._metadata()).status
                if status.code == definition_pb2.OK:
                    return
                if time.monotonic() > deadline:
                    raise RuntimeError(f"no route to topic {topic}: {status.message}")
                time.sleep(ROUTE_LOOK_S)

    def _metadata(self) -> Sequence[tuple[str, str]]:
        """What a request says of who makes it."""
        return (("x-mq-client-id", "topics"),)

    def create_group(self, name: str, *, ordered: bool = False) -> None:
        """Create a consumer group; an ordered one delivers message groups one message at a time."""
        self.create_groups([name], ordered=ordered)

    def create_groups(self, names: Iterable[str], *, ordered: bool = False) -> None:
        """Create several consumer groups alike, in one run of the slow admin tool."""
        groups = self._home / "groups.json"
        groups.write_text(json.dumps([{"groupName": name, "consumeMessageOrderly": ordered} for name in names]))
        self.admin("updateSubGroupList", "-f", str(groups))

    def admin(self, command: str, *arguments: str) -> str:
        """Run one command of the admin tool against the broker and return what it printed."""
        broker = ("-n", self.namesrv_address, "-b", f"{HOST}:{self._broker_port}")
        result = subprocess.run(
            [*self._java("-Xmx128m", "-XX:TieredStopAtLevel=1"), *ADMIN_MAIN, command, *broker, *arguments],
            capture_output=True,
            text=True,
            timeout=ADMIN_TIMEOUT_S,
            check=False,
        )
        # The tool exits with 0 whatever happens; only its text tells.
        if result.returncode != 0 or "success" not in result.stdout:
            raise RuntimeError(f"{command} {arguments} failed:\n{result.stdout}\n{result.stderr}")
        return result.stdout

    def _start_namesrv(self, started: ExitStack) -> None:
        config = self._home / "namesrv.properties"
        config.write_text(f"listenPort={self._namesrv_port}\n")
        command = [*self._java("-Xms64m", "-Xmx128m"), *NAMESRV_MAIN, "-c", str(config)]
        self._begin(command, "namesrv.out", started).wait_for("boot success")

    def _begin(self, command: Sequence[str], log: str, started: ExitStack) -> _Process:
        process = started.enter_context(_Process(command, log=self._home / log))
        self._processes.append(process)
        return process

    def _start_broker(self, started: ExitStack) -> None:
        broker = self._write_broker_settings()
        command = [
            *self._java(*self.java_options),
            *(*BROKER_MAIN, "-n", self.namesrv_address, "-c", str(broker)),
        ]
        self._begin(command, "broker.out", started).wait_for("boot success")
        self._wait_for_broker()

    def _wait_for_broker(self) -> None:
        """The name server knows the broker some time after it has started; a proxy that comes first ends."""
        command = [*self._java("-Xmx128m", "-XX:TieredStopAtLevel=1"), *ADMIN_MAIN, "clusterList"]
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            listed = subprocess.run(
                [*command, "-n", self.namesrv_address],
                capture_output=True,
                text=True,
                timeout=ADMIN_TIMEOUT_S,
                check=False,
            )
            if str(self._broker_settings()["brokerName"]) in listed.stdout:
                return
        raise RuntimeError(f"the name server knows no broker after {START_TIMEOUT_S} s")

    def _write_broker_settings(self) -> Path:
        broker = self._home / "broker.properties"
        broker.write_text("".join(f"{key}={value}\n" for key, value in self._broker_settings().items()))
        return broker

    def _start_proxy(self, started: ExitStack) -> None:
        proxy = self._home / "proxy.json"
        proxy.write_text(json.dumps(self._proxy_settings()))
        mode = ("cluster",) if self._clustered else ("local", "-bc", str(self._write_broker_settings()))
        command = [
            *self._java(*self.java_options),
            *PROXY_MAIN,
            *("-n", self.namesrv_address, "-pc", str(proxy), "-pm", *mode),
        ]
        self._begin(command, "proxy.out", started).wait_for("startup successfully")
        with grpc.insecure_channel(self.endpoint) as channel:
            grpc.channel_ready_future(channel).result(timeout=START_TIMEOUT_S)

    def _broker_settings(self) -> dict[str, str | int]:
        return {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerId": 0,
            "brokerIP1": HOST,
            "brokerIP2": HOST,
            "listenPort": self._broker_port,
            "haListenPort": self._ha_port,
            "storePathRootDir": str(self._home / "store"),
            "storePathCommitLog": str(self._home / "store" / "commitlog"),
            "mappedFileSizeCommitLog": 64 * 1024 * 1024,
            "diskMaxUsedSpaceRatio": 99,
            "flushDiskType": "ASYNC_FLUSH",
            "recallMessageEnable": "true",
            **self._changed_settings,
        }

    def _proxy_settings(self) -> dict[str, str | int | bool]:
        return {
            "rocketMQClusterName": "DefaultCluster",
            "proxyClusterName": "DefaultCluster",
            **({"namesrvAddr": self.namesrv_address} if self._clustered else {}),
            "localServeAddr": HOST,
            "grpcServerPort": self._grpc_port,
            "remotingListenPort": self._remoting_port,
        }

    def _java(self, *options: str) -> list[str]:
        places = (f"-Duser.home={self._home}", f"-Drocketmq.home.dir={self._home}", f"-Djava.io.tmpdir={self._home}")
        return ["java", *options, *JAVA_ACCESS, *places, "-cp", self._classpath]


NAMESRV_MAIN = ("org.apache.rocketmq.namesrv.NamesrvStartup",)
BROKER_MAIN = ("org.apache.rocketmq.broker.BrokerStartup",)
PROXY_MAIN = ("org.apache.rocketmq.proxy.ProxyStartup",)
ADMIN_MAIN = ("org.apache.rocketmq.tools.command.MQAdminStartup",)


class _Process:
    """A child whose output goes to a file while a thread watches it for the line that says it serves."""

    def __init__(self, command: Sequence[str], *, log: Path) -> None:
        self._command, self._log = command, log

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._changed = threading.Condition()
        self._output: list[str] = []
        self._ended = False
        self._reader = threading.Thread(target=self._read, name="apache-rocketmq-output", daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Its data goes away too, and its graceful end takes more than ten seconds.
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for(self, words: str) -> None:
        """Return once the output contains `words`; raise with the output if the process ends or takes too long."""
        with self._changed:
            found = self._changed.wait_for(lambda: self._ended or self._contains(words), START_TIMEOUT_S)
            if not found or not self._contains(words):
                state = "ended" if self._ended else f"did not serve within {START_TIMEOUT_S} s"
                raise RuntimeError(f"{self._command[0]} {state}; its output:\n{''.join(self._output)}")

    def _contains(self, words: str) -> bool:
        return any(words in line for line in self._output)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._log.open("w") as log:
            for line in self._process.stdout:
                log.write(line)
                log.flush()
                with self._changed:
                    self._output = [*self._output[-200:], line]
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def jar_folder() -> Path:
    """The folder with all jars, fetched at the first call."""
    return jars(f"apache-rocketmq-{VERSION}", (f"org.apache.rocketmq:{artifact}:{VERSION}" for artifact in ARTIFACTS))


def free_broker_port() -> int:
    """A free port whose second lower neighbour is free too: the broker opens both."""
    for _ in range(100):
        lower, _, port = free_port(), free_port(), free_port()
        if port - lower == 2:
            return port
    raise RuntimeError("no pair of free ports")


def main() -> None:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topic", action="append", help="a NORMAL topic to create; default TopicTest")
    parser.add_argument("--group", action="append", help="a consumer group to create; default GroupTest")
    arguments = parser.parse_args()
    stop = {signal.SIGINT, signal.SIGTERM}
    # Blocked before the first thread starts, so that all threads inherit it and sigwait alone gets them.
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    with ApacheRocketMQ() as peer:
        for topic in arguments.topic or ["TopicTest"]:
            peer.create_topic(topic)
        peer.create_groups(arguments.group or ["GroupTest"])
        print(f"ready grpc={peer.endpoint}", flush=True)
        signal.sigwait(stop)


if __name__ == "__main__":
    main()
