"""The ports that servers of tests get."""

import socket
import subprocess
import sys

from tests.support.ports import BLOCK_PORTS, HOST, free_port


def all_ports() -> set[int]:
    """What this process gets until its block begins again."""
    return {free_port() for _ in range(BLOCK_PORTS)}


def test_each_process_has_a_block_of_its_own() -> None:
    program = "from tests.support.ports import free_port; print(free_port(), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        assert theirs not in all_ports()
        other.communicate(b"\n")


def test_a_port_on_which_a_server_listens_is_passed_over() -> None:
    port = free_port()
    with socket.create_server((HOST, port)):
        assert port not in all_ports()
    assert port in all_ports()
