"""One attack, from the start of a server of its own to what the attack has cost.

Recovery   from the attacker's end until a call on a new connection takes less than 50 ms; its work is what the server
           did until it worked less than 50 ms for such a call.
Work       the processor time of the server within a span, which does not depend on what else the machine does.
RSS        the server's resident memory, looked at every 20 ms; `rss_after_mb` is what it has after the recovery.
"""

import http.client
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from ternmq_protos.admin_v1 import admin_pb2
from tests.attacks.catalog import ATTACKS, Attack, environment
from tests.attacks.healthy import TOPIC as HEALTHY_TOPIC
from tests.attacks.processor_time import read_processor_s
from tests.attacks.remoting.requests import ROUTE as ROUTE_CODE
from tests.attacks.remoting.wire import RemotingWire
from tests.attacks.requests import FORGED
from tests.attacks.target import ROUTE, Target, route_request
from tests.attacks.wire import Disconnected, Wire
from tests.support.certificates import Certificates
from tests.support.http2_wire import Frame, Kind
from tests.support.ports import free_address
from tests.support.stack import Stack

MB = 1_000_000
_RSS_FATAL = 3000 * MB
_LOOK_S = 0.02
_HEALTH_EVERY_S = 0.1
_HEALTH_TIMEOUT_S = 30.0
_QUICK_S = 0.05
_RECOVERY_MAX_S = 60.0
_ATTACKER_GRACE_S = 30.0
_CLIENT_ID = ("x-mq-client-id", "watcher")
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an attack has cost. `facts` are the attacker's."""

    name: str
    calls: int
    failed: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    p99_work_ms: float
    rss_before_mb: float
    rss_max_mb: float
    rss_after_mb: float
    log_lines: int
    log_bytes: int
    log_lines_in_a_second: int
    log_is_clean: bool
    health_max_ms: float
    health_max_work_ms: float
    health_failed: int
    recovery_s: float
    recovery_work_s: float
    topics: int
    alive: bool
    facts: Mapping[str, int]


class Recovery(NamedTuple):
    """How long it took, and how long the server worked for it; `_RECOVERY_MAX_S` if it did not come."""

    seconds: float
    work_s: float


class Watch:
    """Looks at the server from outside, in threads, until it is stopped."""

    def __init__(self, process: psutil.Process, log: Path, http_address: str) -> None:
        self._process, self._log, self._http = process, log, http_address
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._look, self._ask_health)]
        self._log_from = log.stat().st_size
        self._lines_at = Counter[int]()
        self.rss_max = self.rss()
        self.health_max_s = 0.0
        self.health_max_work_s = 0.0
        self.health_failed = 0
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def rss(self) -> int:
        """0 when the server is no more."""
        try:
            return int(self._process.memory_info().rss)
        except psutil.Error:
            return 0

    @property
    def log(self) -> bytes:
        """What the server has said since the beginning."""
        with self._log.open("rb") as file:
            file.seek(self._log_from)
            return file.read()

    @property
    def lines_in_a_second(self) -> int:
        return max(self._lines_at.values(), default=0)

    def _look(self) -> None:
        with self._log.open("rb") as file:
            file.seek(self._log_from)
            while not self._stopped.wait(_LOOK_S):
                rss = self.rss()
                self.rss_max = max(self.rss_max, rss)
                if rss > _RSS_FATAL:  # the attack has done enough, and the machine is needed
                    self._process.kill()
                self._lines_at[int(time.monotonic())] += file.read().count(b"\n")

    def _ask_health(self) -> None:
        while not self._stopped.wait(_HEALTH_EVERY_S):
            began, work_s = time.monotonic(), read_processor_s(self._process.pid)
            self.health_failed += not ask_health(self._http)
            self.health_max_s = max(self.health_max_s, time.monotonic() - began)
            self.health_max_work_s = max(self.health_max_work_s, read_processor_s(self._process.pid) - work_s)


def ask_health(address: str) -> bool:
    """Whether `/health/live` says so."""
    connection = http.client.HTTPConnection(address, timeout=_HEALTH_TIMEOUT_S)
    try:
        connection.request("GET", "/health/live")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def measure(name: str, seconds: float) -> Outcome:
    """Start a server, attack it, and see what becomes of a healthy client."""
    attack = ATTACKS[name]
    with tempfile.TemporaryDirectory(prefix="ternmq-attack-") as folder, AttackedStack(Path(folder), attack) as stack:
        return _attacked(name, attack, stack, seconds)


def _attacked(name: str, attack: Attack, stack: "AttackedStack", seconds: float) -> Outcome:
    attack.prepare(Target(stack.grpc, stack.http, stack.remoting, 0.0))
    protocol, address = ("remoting", stack.remoting) if attack.remoting else ("grpc", stack.grpc)
    with _program("healthy", protocol, address, str(stack.process.pid)) as healthy:
        assert _line(healthy) == "ready"
        server = psutil.Process(stack.process.pid)
        watch = Watch(server, stack.log, stack.http)
        rss_before = watch.rss()
        _tell(healthy, "measure")
        facts = _attack(name, stack, seconds)
        recovery = _recovery(stack, attack)
        rss_after = watch.rss()
        _tell(healthy, "end")
        figures = json.loads(_line(healthy))
        watch.stop()
        log = watch.log
        return Outcome(
            name=name,
            **figures,
            rss_before_mb=rss_before / MB,
            rss_max_mb=watch.rss_max / MB,
            rss_after_mb=rss_after / MB,
            log_lines=log.count(b"\n"),
            log_bytes=len(log),
            log_lines_in_a_second=watch.lines_in_a_second,
            log_is_clean=_is_clean(log),
            health_max_ms=1000 * watch.health_max_s,
            health_max_work_ms=1000 * watch.health_max_work_s,
            health_failed=watch.health_failed,
            recovery_s=recovery.seconds,
            recovery_work_s=recovery.work_s,
            topics=_topics(stack.grpc) if attack.topics_counted and stack.process.poll() is None else 0,
            alive=stack.process.poll() is None,
            facts=facts,
        )


class AttackedStack(Stack):
    """A server with the environment of an attack, and its limit of descriptors."""

    def __init__(self, folder: Path, attack: Attack) -> None:
        super().__init__(folder)
        self.addresses["remoting"] = free_address()
        self._environment = environment(attack)
        if attack.tls:
            self._environment |= _tls_at_the_same_port(folder)
        self._limit = attack.descriptors

    @property
    def remoting(self) -> str:
        return self.addresses["remoting"]

    def command(self) -> Sequence[str]:
        if self._limit is None:
            return super().command()
        return ("prlimit", f"--nofile={self._limit}:{self._limit}", *super().command())


def _tls_at_the_same_port(folder: Path) -> dict[str, str]:
    cert, key = Certificates(folder / "certificates").issue("server")
    return {"TERNMQ_TLS_CERT": str(cert), "TERNMQ_TLS_KEY": str(key), "TERNMQ_GRPC_TLS": "optional"}


@contextmanager
def _program(module: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = (sys.executable, "-m", f"tests.attacks.{module}", *arguments)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _tell(process: "subprocess.Popen[str]", word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def _attack(name: str, stack: AttackedStack, seconds: float) -> dict[str, int]:
    with _program("attacker", name, stack.grpc, stack.http, stack.remoting, str(seconds)) as attacker:
        try:
            printed, _ = attacker.communicate(timeout=seconds + _ATTACKER_GRACE_S)
        except subprocess.TimeoutExpired:
            return {"attacker hung": 1}
    assert attacker.returncode == 0, f"the attack {name} failed"
    facts: dict[str, int] = json.loads(printed)
    return facts


def _recovery(stack: AttackedStack, attack: Attack) -> Recovery:
    began, pid = time.monotonic(), stack.process.pid
    worked_s = read_processor_s(pid)
    work_s: float | None = None
    while stack.process.poll() is None and (passed := time.monotonic() - began) < _RECOVERY_MAX_S:
        tried, before_s = time.monotonic(), read_processor_s(pid)
        if _is_served(stack, attack):
            if work_s is None and read_processor_s(pid) - before_s < _QUICK_S:
                work_s = before_s - worked_s
            if work_s is not None and time.monotonic() - tried < _QUICK_S:
                return Recovery(passed, work_s)
        time.sleep(_LOOK_S)
    return Recovery(_RECOVERY_MAX_S, _RECOVERY_MAX_S if work_s is None else work_s)


def _is_served(stack: AttackedStack, attack: Attack) -> bool:
    try:
        if attack.remoting:
            with RemotingWire(stack.remoting) as remoting:
                remoting.call(ROUTE_CODE, topic=HEALTHY_TOPIC)
                return remoting.wait_for_answers(1, 1.0)
        with Wire(stack.grpc) as wire:
            wire.call(ROUTE, route_request(HEALTHY_TOPIC), _CLIENT_ID)
            return wire.wait_for_ends(1, 1.0)
    except Disconnected:
        return False


def _is_clean(log: bytes) -> bool:
    """Whether nobody who reads the log on a terminal can be deceived."""
    forged = FORGED.encode()
    return not _CONTROL.search(log) and not any(line.startswith(forged) for line in log.splitlines())


def _topics(address: str) -> int:
    answers = list[Any]()

    def heard(frame: Frame) -> None:
        if frame.kind == Kind.DATA and frame.payload:
            answers.append(frame.payload)

    with Wire(address, watcher=heard) as wire:
        request = admin_pb2.ListTopicsRequest().SerializeToString()
        wire.call(f"/{admin_pb2.DESCRIPTOR.package}.Admin/ListTopics", request, _CLIENT_ID)
        wire.wait_for_ends(1, 10.0)
    return len(admin_pb2.ListTopicsResponse.FromString(b"".join(answers)[5:]).topics)
