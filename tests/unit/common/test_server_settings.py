"""What `ternmq up`, `ternmq broker` and `ternmq proxy` accept as settings."""

import dataclasses
from pathlib import Path

import pytest

from ternmq_common.addresses import is_wildcard, parse_address
from ternmq_common.resources.setting import InvalidSetting, settings_of
from ternmq_common.server_settings import (
    BrokerServerSettings,
    ClientListener,
    FlushMode,
    ProcessSettings,
    ProxySettings,
    ServerSettings,
    parse_listeners,
)
from ternmq_common.server_settings.listeners import LISTENERS_MAX
from ternmq_common.settings import SettingsError, load_settings

CLASSES: tuple[type[ProcessSettings], ...] = (ServerSettings, BrokerServerSettings, ProxySettings)
SETTINGS = {name: each for cls in CLASSES for name, each in settings_of(cls).items()}
RANGES = {name: each.within for name, each in SETTINGS.items() if each.within is not None}


def test_the_defaults_are_allowed() -> None:
    assert ServerSettings().grpc == "127.0.0.1:8081"
    assert ServerSettings().flush is FlushMode.SYNC


def test_every_setting_says_what_it_decides() -> None:
    assert [name for name, each in SETTINGS.items() if not each.meaning.rstrip(")").endswith(".")] == []


def test_expert_settings_have_no_options_and_no_settings_are_called_as_their_table() -> None:
    assert [name for name, each in SETTINGS.items() if each.expert and each.flag] == []
    assert [name for name in SETTINGS if name.startswith("expert")] == []


@pytest.mark.parametrize("name", [name for name, each in SETTINGS.items() if each.kind in (int, float)])
def test_every_number_has_a_range(name: str) -> None:
    assert name in RANGES or name == "trace_ratio"


def class_with(name: str) -> type[ProcessSettings]:
    return next(each for each in CLASSES if name in {field.name for field in dataclasses.fields(each)})


@pytest.mark.parametrize("name", sorted(RANGES))
def test_both_ends_of_every_range_are_allowed_and_their_neighbours_refused(name: str) -> None:
    least, most = RANGES[name]
    settings = class_with(name)
    # Large bodies need segments that hold them.
    base = {"segment_bytes": RANGES["segment_bytes"][1], "body_bytes_max": 1} if settings is ServerSettings else {}
    if name == "min_insync":
        base = {"replicas": most}
    if name == "clock_skew_warn_ms":
        base = {"clock_skew_max_ms": 0}
    for value in (least, most):
        settings(**{**base, name: value})  # type: ignore[arg-type]
    for value in (least - 1, most + 1):
        with pytest.raises(InvalidSetting, match=name):
            settings(**{**base, name: value})  # type: ignore[arg-type]


def test_no_more_replicas_can_be_needed_than_there_are() -> None:
    assert BrokerServerSettings(replicas=3, min_insync=3).min_insync == 3
    with pytest.raises(InvalidSetting, match="min_insync: at most 3, the number of replicas, is allowed"):
        BrokerServerSettings(replicas=3, min_insync=4)


def test_a_clock_is_warned_of_before_it_is_wrong() -> None:
    assert ProxySettings(clock_skew_warn_ms=2000, clock_skew_max_ms=0).clock_skew_max_ms == 0
    with pytest.raises(InvalidSetting, match="clock_skew_max_ms: 0, or no less than clock_skew_warn_ms, is allowed"):
        BrokerServerSettings(clock_skew_warn_ms=2000, clock_skew_max_ms=1999)


@pytest.mark.parametrize("store_id", ["yes", "A" * 32, "a" * 31, "a" * 33])
def test_a_store_that_is_given_up_is_named_by_its_id(store_id: str) -> None:
    assert BrokerServerSettings(accept_empty_store="0123456789abcdef" * 2).accept_empty_store
    with pytest.raises(InvalidSetting, match="accept_empty_store: the store's id is needed"):
        BrokerServerSettings(accept_empty_store=store_id)


@pytest.mark.parametrize("registry", ["postgresql://u:hidden@db/ternmq", "postgresql://u@db/ternmq?password=hidden"])
def test_the_registrys_password_is_in_one_place(registry: str) -> None:
    file = Path("password")
    assert ProxySettings(registry="postgresql://u@db:5432/ternmq", registry_password_file=file)
    for settings in (BrokerServerSettings, ProxySettings):
        with pytest.raises(InvalidSetting, match=r"registry_password_file: a password is in the URL too"):
            settings(registry=registry, registry_password_file=file)


@pytest.mark.parametrize("name", ["a b", "\u00e4", "x" * 128, "a/b", "a\n"])
def test_names_of_replicas_are_as_those_of_brokers(name: str) -> None:
    assert BrokerServerSettings(replica_name="A-1_b.c").replica_name == "A-1_b.c"
    for field in ("replica_name", "broker_name"):
        with pytest.raises(InvalidSetting, match=f"{field}: 1 to 127 letters, digits and the characters _ . - are"):
            BrokerServerSettings(**{field: name})  # type: ignore[arg-type]


def test_a_test_clock_is_one_process_s() -> None:
    with pytest.raises(SettingsError, match=r"workers = 2 \(from TERNMQ_WORKERS\): a test clock") as refused:
        load_settings(ServerSettings, file=None, environ={"TERNMQ_WORKERS": "2"}, flags={"test_clock": True})
    assert "\n" not in str(refused.value)
    assert ServerSettings(workers=1, test_clock=True).test_clock


@pytest.mark.parametrize("address", ["javascript:alert(1)", "grafana.example", "//grafana.example", " https://x"])
def test_a_grafana_has_an_address_of_the_web(address: str) -> None:
    with pytest.raises(InvalidSetting, match="console_grafana: it is no address"):
        ServerSettings(console_grafana=address)
    ServerSettings(console_grafana="https://grafana.example/d/ternmq")


@pytest.mark.parametrize(
    "prefix",
    ["/", "mq", "/mq/", "//mq", "/mq//ops", "/..", "/mq/./ops", "/m q", "/m%71", "/mq?a", "/mq#a", "/\u00fc", "/mq\n",
     "/a" * 9, "/console", "/console/mq", "/api", "/api/v1", "/api/v1/topics", "/health", "/metrics", "/version"],
)  # fmt: skip
def test_what_can_not_be_a_prefix_of_paths_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidSetting, match=r"console_prefix: .*/mq"):
        ServerSettings(console_prefix=prefix)


@pytest.mark.parametrize("prefix", ["", "/mq", "/ops/mq-1", "/api/mq", "/consoles", "/...", "/~a.b_c"])
def test_a_prefix_of_paths_may_be_any_other(prefix: str) -> None:
    assert ServerSettings(console_prefix=prefix).console_prefix == prefix


@pytest.mark.parametrize("address", ["", "8081", "localhost", "localhost:", ":8081", "h:70000", "a b:1", "::1:8081"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidSetting, match="HOST:PORT is needed"):
        ServerSettings(grpc=address)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("localhost:0", ("localhost", 0)), ("[::1]:8081", ("::1", 8081)), ("0.0.0.0:65535", ("0.0.0.0", 65535))],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:8081", [("127.0.0.1:8081", None)]),
        ("0.0.0.0:8081=mq.example.com:443", [("0.0.0.0:8081", "mq.example.com:443")]),
        ("[::]:8081 = [2001:db8::7]:443", [("[::]:8081", "[2001:db8::7]:443")]),
        ("a:1,b:1=c:2, [::1]:1", [("a:1", None), ("b:1", "c:2"), ("[::1]:1", None)]),
        ("a:0,a:0", [("a:0", None), ("a:0", None)]),
    ],
)
def test_listeners(text: str, expected: list[tuple[str, str | None]]) -> None:
    listeners = tuple(ClientListener(address, advertised) for address, advertised in expected)
    assert parse_listeners(text) == listeners
    assert ProxySettings(grpc=text).grpc_listeners == listeners


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a:1,", "'' is no address: HOST:PORT is needed"),
        ("a:1,b", "'b' is no address: HOST:PORT is needed"),
        ("a:1=b", "'b' is no address: HOST:PORT is needed"),
        ("a:1=", "'' is no address: HOST:PORT is needed"),
        ("=b:1", "'' is no address: HOST:PORT is needed"),
        ("a:1=b:2=c:3", "'b:2=c:3' is no address: HOST:PORT is needed"),
        ("a:1,b:1,A:1", "a:1 is there more than once"),
        ("[::1]:1=b:2,[::1]:1", "there more than once"),
        ("a:1=b:0", "no client can connect to b:0; name the host and port"),
        ("a:1=0.0.0.0:2", "no client can connect to 0.0.0.0:2; name the host and port"),
        ("a:1=[::]:2", "no client can connect to .*; name the host and port"),
        (",".join(["a:0"] * (LISTENERS_MAX + 1)), "at most 8 listeners"),
    ],
)
def test_listeners_that_cannot_be_are_refused_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem) as refused:
        load_settings(ServerSettings, file=None, environ={"TERNMQ_GRPC": text}, flags={})
    assert str(refused.value).startswith(f"grpc = {text} (from TERNMQ_GRPC): ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("0.0.0.0", True), ("::", True), ("0::0", True), ("127.0.0.1", False), ("::1", False), ("mq.example.com", False)],
)
def test_wildcards(host: str, expected: bool) -> None:
    assert is_wildcard(host) is expected


def test_two_fronts_cannot_share_a_port_unless_it_is_picked() -> None:
    ServerSettings(grpc="127.0.0.1:0", http="127.0.0.1:0")
    with pytest.raises(InvalidSetting, match="the gRPC front has this address"):
        ServerSettings(grpc="127.0.0.1:9", http="127.0.0.1:9")
    with pytest.raises(InvalidSetting, match="the gRPC front has this address"):
        ServerSettings(grpc="127.0.0.1:8,127.0.0.1:9=mq:1", http="127.0.0.1:9")


@pytest.mark.parametrize("name", ["", "a b", "x" * 128, "a/b"])
def test_broker_names(name: str) -> None:
    with pytest.raises(InvalidSetting, match="broker_name"):
        ServerSettings(broker_name=name)


def test_a_body_fits_into_a_segment() -> None:
    with pytest.raises(InvalidSetting, match="half a segment"):
        ServerSettings(segment_bytes=2**20)


def test_every_setting_can_be_a_variable() -> None:
    environ = {SETTINGS["retention_ms"].variable: "3d", SETTINGS["segment_bytes"].variable: "64MiB"}
    settings = load_settings(ServerSettings, file=None, environ=environ, flags={}).settings
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
    assert SETTINGS["registry"].render(url) == shown


def test_the_registrys_password_is_in_no_error(tmp_path: Path) -> None:
    file = tmp_path / "ternmq.toml"
    file.write_text('registry = ["postgresql://ternmq:hush@db/ternmq"]')
    with pytest.raises(SettingsError, match=r"registry = .*\*\*\*@db.*text in quotes is needed") as refused:
        load_settings(ProxySettings, file=file, environ={}, flags={})
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("loud", "'loud' is no level; one of debug, info, warning, error is needed"),
        ("", "'' is no level"),
        ("info,debug", "'debug' is a second level for all"),
        ("info,ternmq_proxy=", "'' is no level"),
        ("ternmq_prxy=debug", "'ternmq_prxy' is no package of ours; they are pyspark_ternmq, ternmq,"),
        ("proxy=debug", "'proxy' is no package; did you mean 'ternmq_proxy'?"),
        ("hpack=debug,hpack=info", "hpack is there more than once"),
        ("a b=debug", "'a b' is no name of a package"),
    ],
)
def test_levels_that_are_none_are_refused(text: str, problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(ServerSettings, file=None, environ={"TERNMQ_LOG_LEVEL": text}, flags={})
    assert str(refused.value).startswith(f"log_level = {text} (from TERNMQ_LOG_LEVEL): ")
    assert problem in str(refused.value)


@pytest.mark.parametrize("text", ["DEBUG", "info,ternmq_proxy.catalog.catalog=debug", "ternmq_broker = debug , error"])
def test_levels_that_are_some_are_taken(text: str) -> None:
    assert (
        load_settings(ServerSettings, file=None, environ={"TERNMQ_LOG_LEVEL": text}, flags={}).settings.log_level
        == text
    )
