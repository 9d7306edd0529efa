"""Machines on a network of their own, made of network namespaces: links that are cut in silence, or slow.

Each member is a namespace with one interface; a bridge in one more namespace joins them, out of reach of what the
machine's own firewall says about bridges. Nothing of it is connected to any other network. Only root can make it, with
the programs of iproute2.

Cut     two members lose each other as by a firewall that drops: no packet arrives, nobody is told, connections stay
        open. Each gets a false hardware address for the other, so that nobody takes what it sends.
Door    a Unix socket, which any namespace can reach, to an address of the network; or a port of 127.0.0.1 outside.
"""

import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

PROGRAMS = ("ip", "tc")
NOBODY = "02:00:00:00:00:00"
SLOW = ("tbf", "rate", "1mbit", "burst", "32kbit", "latency", "400ms")
INTERFACE = "eth0"
TIMEOUT_S = 20.0
DOOR = Path(__file__).with_name("door.py")
_networks = itertools.count()


class NoNetwork(Exception):
    """No namespaces can be made here; the text says why."""


class Member:
    """A machine: commands run on it with `within` before them."""

    def __init__(self, namespace: str, hub: str, port: str, address: str) -> None:
        self.namespace, self.address = namespace, address
        self.within = ("ip", "netns", "exec", namespace)
        self._hub, self._port = hub, port

    def at(self, port: int) -> str:
        return f"{self.address}:{port}"

    @contextmanager
    def cut_from(self, other: "Member") -> Iterator[None]:
        """Nothing passes between the two meanwhile."""
        for here, there in ((self, other), (other, self)):
            here._neighbour("replace", there.address, "lladdr", NOBODY, "nud", "permanent")
        try:
            yield
        finally:
            for here, there in ((self, other), (other, self)):
                here._neighbour("del", there.address)

    @contextmanager
    def unplugged(self) -> Iterator[None]:
        """Nothing passes to or from it meanwhile."""
        _run("ip", "-n", self._hub, "link", "set", self._port, "down")
        try:
            yield
        finally:
            _run("ip", "-n", self._hub, "link", "set", self._port, "up")

    @contextmanager
    def slow(self) -> Iterator[None]:
        """A megabit a second to it and from it meanwhile; what waits longer is dropped."""
        ends = ((self.namespace, INTERFACE), (self._hub, self._port))
        for namespace, interface in ends:
            _run("tc", "-n", namespace, "qdisc", "add", "dev", interface, "root", *SLOW)
        try:
            yield
        finally:
            for namespace, interface in ends:
                _run("tc", "-n", namespace, "qdisc", "del", "dev", interface, "root")

    def _neighbour(self, action: str, address: str, *more: str) -> None:
        _run("ip", "-n", self.namespace, "neigh", action, address, "dev", INTERFACE, *more)


class Network:
    """`with Network() as network`; members are added until its end, when everything of it is removed."""

    def __init__(self) -> None:
        self._name = f"ternmq-{os.getpid()}-{next(_networks)}"
        self._hub = f"{self._name}-hub"
        self._hosts = itertools.count(1)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise NoNetwork("network namespaces are made by root; run this tier as root")
        if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
            raise NoNetwork(f"{' and '.join(missing)} missing: install iproute2")
        try:
            self._namespace(self._hub)
            _run("ip", "-n", self._hub, "link", "add", "bridge", "type", "bridge")
            _run("ip", "-n", self._hub, "link", "set", "bridge", "up")
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def member(self, name: str) -> Member:
        """A new machine, that reaches all others."""
        namespace, number = f"{self._name}-{name}", next(self._hosts)
        port = f"port{number}"
        self._namespace(namespace)
        pair = ("link", "add", port, "type", "veth", "peer", "name", INTERFACE, "netns", namespace)
        _run("ip", "-n", self._hub, *pair)
        _run("ip", "-n", self._hub, "link", "set", port, "master", "bridge", "up")
        _run("ip", "-n", namespace, "address", "add", f"10.77.0.{number}/24", "dev", INTERFACE)
        for interface in ("lo", INTERFACE):
            _run("ip", "-n", namespace, "link", "set", interface, "up")
        return Member(namespace, self._hub, port, f"10.77.0.{number}")

    def _namespace(self, name: str) -> None:
        _run("ip", "netns", "add", name)
        self._stack.callback(_run, "ip", "netns", "del", name)


class Door:
    """`with Door(member, path, address) as target`: `target` is what gRPC calls the way in."""

    def __init__(self, member: Member, path: Path, address: str) -> None:
        self._command = (*member.within, sys.executable, str(DOOR), str(path), address)
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> str:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"open\n", "the door did not open"
        return f"unix:{self._path}"

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()


@contextmanager
def port_into(member: Member, address: str) -> Iterator[str]:
    """A port of 127.0.0.1, outside of the network, that leads to an address of it by way of a member."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.fileno()
        command = (*member.within, sys.executable, str(DOOR), str(number), address)
        with subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=[number]) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"open\n", "the door did not open"
                yield f"127.0.0.1:{listener.getsockname()[1]}"
            finally:
                process.kill()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise NoNetwork(f"{' '.join(command)}: {done.stderr.strip()}")
