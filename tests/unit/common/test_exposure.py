"""Listening beyond the machine."""

import pytest

from ternmq_common.errors import StartupError
from ternmq_common.server_settings import ServerSettings, exposure

LOCAL = "127.0.0.1:0"


@pytest.mark.parametrize("address", [LOCAL, "[::1]:0", "localhost:1", "127.8.8.8:1"])
def test_this_machine_is_not_exposed(address: str) -> None:
    assert exposure(ServerSettings(grpc=address, http=LOCAL)) is None
    assert exposure(ServerSettings(grpc=LOCAL, http=address)) is None


@pytest.mark.parametrize(
    ("grpc", "http"), [("0.0.0.0:0", LOCAL), (LOCAL, "[::]:0"), (f"{LOCAL},10.0.0.1:0", LOCAL), ("mq.example:1", LOCAL)]
)
def test_what_others_reach_must_be_asked_for(grpc: str, http: str) -> None:
    with pytest.raises(StartupError, match=r"--access-control.*--insecure"):
        exposure(ServerSettings(grpc=grpc, http=http))
    told = exposure(ServerSettings(grpc=grpc, http=http, insecure=True))
    assert told is not None
    assert "can be reached from other machines" in told
    assert exposure(ServerSettings(grpc=grpc, http=http, access_control=True)) is None
