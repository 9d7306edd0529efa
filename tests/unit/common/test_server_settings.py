"""What `ternmq up`, `ternmq broker` and `ternmq proxy` accept as settings."""

import dataclasses
from pathlib import Path

import pytest

from ternmq_common.server_settings import (
    RANGES,
    BrokerServerSettings,
    FlushMode,
    ProcessSettings,
    ProxySettings,
    ServerSettings,
    parsed_address,
)
from ternmq_common.settings import InvalidSetting, SettingsError, load, rendered, variable_name

CLASSES: tuple[type[ProcessSettings], ...] = (ServerSettings, BrokerServerSettings, ProxySettings)


def test_the_defaults_are_allowed() -> None:
    assert ServerSettings().grpc == "127.0.0.1:8081"
    assert ServerSettings().flush is FlushMode.SYNC


def class_with(name: str) -> type[ProcessSettings]:
    return next(each for each in CLASSES if name in {field.name for field in dataclasses.fields(each)})


@pytest.mark.parametrize("name", sorted(RANGES))
def test_both_ends_of_every_range_are_allowed_and_their_neighbours_refused(name: str) -> None:
    least, most = RANGES[name]
    settings = class_with(name)
    # Large bodies need segments that hold them.
    base = {"segment_bytes": RANGES["segment_bytes"][1], "body_bytes_max": 1} if settings is ServerSettings else {}
    for value in (least, most):
        settings(**{**base, name: value})  # type: ignore[arg-type]
    for value in (least - 1, most + 1):
        with pytest.raises(InvalidSetting, match=name):
            settings(**{**base, name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("address", ["", "8081", "localhost", "localhost:", ":8081", "h:70000", "a b:1", "::1:8081"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidSetting, match="HOST:PORT is needed"):
        ServerSettings(grpc=address)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("localhost:0", ("localhost", 0)), ("[::1]:8081", ("::1", 8081)), ("0.0.0.0:65535", ("0.0.0.0", 65535))],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    assert parsed_address(text) == expected


def test_two_fronts_cannot_share_a_port_unless_it_is_picked() -> None:
    ServerSettings(grpc="127.0.0.1:0", http="127.0.0.1:0")
    with pytest.raises(InvalidSetting, match="the gRPC front has this address"):
        ServerSettings(grpc="127.0.0.1:9", http="127.0.0.1:9")


@pytest.mark.parametrize("name", ["", "a b", "x" * 128, "a/b"])
def test_broker_names(name: str) -> None:
    with pytest.raises(InvalidSetting, match="broker_name"):
        ServerSettings(broker_name=name)


def test_a_body_fits_into_a_segment() -> None:
    with pytest.raises(InvalidSetting, match="half a segment"):
        ServerSettings(segment_bytes=2**20)


def test_every_setting_can_be_a_variable() -> None:
    environ = {variable_name("retention_ms"): "3d", variable_name("segment_bytes"): "64MiB"}
    settings = load(ServerSettings, file=None, environ=environ, flags={}).settings
    assert (settings.retention_ms, settings.segment_bytes) == (3 * 86_400_000, 64 * 2**20)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ternmq@db:5432/ternmq", "postgresql://ternmq@db:5432/ternmq"),
        ("postgresql://ternmq:hush@db:5432/ternmq", "postgresql://ternmq:***@db:5432/ternmq"),
        ("postgresql://ternmq:hu/sh@hu:sh@db/ternmq", "postgresql://ternmq:***@db/ternmq"),
        ("postgresql://:hush@db/ternmq", "postgresql://:***@db/ternmq"),
        (
            "postgresql://db/x?user=u&password=hush&sslmode=require",
            "postgresql://db/x?user=u&password=***&sslmode=require",
        ),
        ("postgresql://db/x?sslpassword=hush", "postgresql://db/x?sslpassword=***"),
        ("host=db password='hush hush' user=u", "host=db password=***"),
    ],
)
def test_the_registrys_password_is_not_shown(url: str, shown: str) -> None:
    assert rendered("registry", url) == shown


def test_the_registrys_password_is_in_no_error(tmp_path: Path) -> None:
    file = tmp_path / "ternmq.toml"
    file.write_text('registry = ["postgresql://ternmq:hush@db/ternmq"]')
    with pytest.raises(SettingsError, match=r"registry = .*\*\*\*@db.*text in quotes is needed") as refused:
        load(ProxySettings, file=file, environ={}, flags={})
    assert "hush" not in str(refused.value)
