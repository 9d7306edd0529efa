"""Sockets in the file system, and ports that several processes have together."""

import socket
import stat
from pathlib import Path

import pytest

from ternmq_common.errors import StartupError
from ternmq_rpc.grpc_http2.messages import StreamBroken
from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.grpc_stream.client import open_stream
from ternmq_rpc.grpc_stream.served_call import ServedCall, ServedMethod
from ternmq_rpc.serving.sockets import actual_address, bind_socket, reserve_address, share_address

PATH = "/test/Echo"


async def _echo(call: ServedCall) -> None:
    while (data := await call.read_message()) is not None:
        call.write_messages(data)


async def test_a_stream_over_a_socket_in_the_file_system(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'socket'}"
    server = CallServer({PATH: ServedMethod(_echo, is_conversation=True)}.get)
    await server.add_listener(bind_socket(address))
    stream = await open_stream(address, PATH, timeout_s=5)
    for data in (b"a", b"b" * 100_000):
        stream.write_messages(data)
        assert await stream.read_message() == data
    await stream.end_stream()
    assert await stream.read_message() is None
    await server.stop_serving(1)


async def test_nobody_there_is_told_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(StreamBroken, match=r"unix:.*/nobody can't be reached"):
        await open_stream(f"unix:{tmp_path / 'nobody'}", PATH, timeout_s=5)


def test_the_file_is_for_its_user_alone_and_replaces_that_of_who_died(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with bind_socket(f"unix:{path}"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.exists()
    with bind_socket(f"unix:{path}") as again:
        assert actual_address(f"unix:{path}", again) == f"unix:{path}"


def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="can't be listened on: AF_UNIX path too long"):
        bind_socket(f"unix:{tmp_path}/{'x' * 120}")


def test_a_reserved_port_is_shared_with_those_who_say_so_and_with_nobody_else() -> None:
    with reserve_address("127.0.0.1:0") as held:
        share_address(held)
        address = actual_address("127.0.0.1:0", held)
        with bind_socket(address, shared=True) as first, bind_socket(address, shared=True) as second:
            assert first.getsockname() == second.getsockname() == held.getsockname()
            with pytest.raises(StartupError, match="already in use"):
                bind_socket(address)
            with pytest.raises(StartupError, match="already in use"):
                reserve_address(address)


def test_connections_come_only_to_those_who_listen() -> None:
    with reserve_address("127.0.0.1:0") as held:
        share_address(held)
        address = actual_address("127.0.0.1:0", held)
        with bind_socket(address, shared=True) as listening:
            listening.settimeout(5)
            for _ in range(20):
                with socket.create_connection(held.getsockname(), timeout=5):
                    listening.accept()[0].close()
