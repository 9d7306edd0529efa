"""Listening beyond the machine."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ternmq_common.errors import StartupError
from ternmq_common.resources.setting import InvalidSetting
from ternmq_common.server_settings import ServerSettings, TlsMode, find_exposure

LOCAL = "127.0.0.1:0"


@pytest.mark.parametrize("address", [LOCAL, "[::1]:0", "localhost:1", "127.8.8.8:1"])
def test_this_machine_is_not_exposed(address: str) -> None:
    assert find_exposure(ServerSettings(grpc=address, http=LOCAL)) is None
    assert find_exposure(ServerSettings(grpc=LOCAL, http=address)) is None


OPEN = [("0.0.0.0:0", LOCAL), (LOCAL, "[::]:0"), (f"{LOCAL},10.0.0.1:0", LOCAL), ("mq.example:1", LOCAL)]
CERTIFICATE: dict[str, Any] = {"tls_cert": Path("server.pem"), "tls_key": Path("server.key")}


@pytest.mark.parametrize(("grpc", "http"), OPEN)
def test_what_others_reach_must_be_asked_for(grpc: str, http: str) -> None:
    with pytest.raises(StartupError, match=r"add --access-control --tls-cert FILE --tls-key FILE, .*--insecure"):
        find_exposure(ServerSettings(grpc=grpc, http=http))
    told = find_exposure(ServerSettings(grpc=grpc, http=http, insecure=True))
    assert told is not None
    assert "can be reached from other machines" in told
    assert find_exposure(ServerSettings(grpc=grpc, http=http, access_control=True, **CERTIFICATE)) is None


@pytest.mark.parametrize(
    ("given", "gap", "remedy"),
    [
        ({"access_control": True}, "there is no TLS", "--tls-cert FILE --tls-key FILE"),
        ({"access_control": True, "grpc_tls": TlsMode.OPTIONAL, **CERTIFICATE}, "plain text", "--grpc-tls required"),
        ({"access_control": True, "grpc_tls": TlsMode.OFF, **CERTIFICATE}, "plain text", "--grpc-tls required"),
        (CERTIFICATE, "access control is off", "--access-control"),
    ],
)
def test_both_users_and_tls_guard_a_server(given: dict[str, Any], gap: str, remedy: str) -> None:
    settings = ServerSettings(grpc="0.0.0.0:1", http=LOCAL, **given)
    with pytest.raises(StartupError) as refused:
        find_exposure(settings)
    told = find_exposure(replace(settings, insecure=True))
    assert told is not None
    assert str(refused.value) == f"{told}: add {remedy}, listen on 127.0.0.1, or add --insecure if that is intended"
    assert gap in told


def test_http_that_serves_users_alone_is_not_exposed() -> None:
    assert find_exposure(ServerSettings(grpc=LOCAL, http="0.0.0.0:2", access_control=True)) is None


def test_the_listener_of_operators_counts() -> None:
    with pytest.raises(StartupError, match=r"^10\.0\.0\.1:9 can be reached"):
        find_exposure(ServerSettings(grpc=LOCAL, http=LOCAL, admin="10.0.0.1:9"))


@pytest.mark.parametrize("admin", ["127.0.0.1:8081", "127.0.0.1:8082", "nonsense"])
def test_operators_need_an_address_of_their_own(admin: str) -> None:
    with pytest.raises(InvalidSetting, match="admin"):
        ServerSettings(admin=admin)
