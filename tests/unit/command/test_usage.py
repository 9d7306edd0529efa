"""Help, wrong usage, completion, and what a call costs before it does anything."""

import json
import os
import platform
import subprocess
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import click
import pytest

from ternmq_command.exit_codes import INTERRUPTED
from ternmq_command.main import COMMANDS, cli
from ternmq_common.errors import StartupError
from ternmq_common.resources.setting import settings_of
from ternmq_common.server_settings import BrokerServerSettings, ProxySettings, ServerSettings
from tests.unit.command.conftest import Call


def all_paths() -> list[tuple[str, ...]]:
    context = click.Context(cli)
    commands = {name: cli.get_command(context, name) for name in COMMANDS}
    return [(), *paths_of(commands)]


def paths_of(commands: Mapping[str, click.Command | None]) -> Iterator[tuple[str, ...]]:
    for name, command in commands.items():
        yield (name,)
        if isinstance(command, click.Group):
            yield from ((name, *path) for path in paths_of(command.commands))


@pytest.mark.parametrize("path", all_paths(), ids=" ".join)
def test_every_help_has_examples(call: Call, path: tuple[str, ...]) -> None:
    result = call(*path, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.stdout
    assert "\n  " + " ".join(("  ternmq", *path)) in result.stdout or "| ternmq" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("topics",), "no such command 'topics'"),
        (("topic", "creat", "x"), "no such command 'creat'"),
        (("topic", "create"), "missing argument 'name'"),
        (("topic", "create", "x", "--type", "big"), "'big' is not one of"),
        (("topic", "create", "x", "--queues", "0"), "0 is not in the range"),
        (("topic", "list", "--endpoint", "nowhere"), "host:port is needed"),
        (("send", "t", "b", "--property", "x"), "name=value is needed"),
        (("send", "t", "b", "--delay", "soon"), "a duration like"),
        (("send", "t", "b", "--file", "f"), "not both"),
        (("send", "t", "b", "--delay", "2h", "--at", "2026-08-01"), "give one of --delay, --at and --delay-level"),
        (("recall", "t"), "missing argument 'handle'"),
        (("receive", "t"), "missing option '--group'"),
        (("receive", "t", "--group", "g", "--filter", "a", "--sql", "b"), "not both"),
        (("tail", "t", "--filter", "a", "--sql", "b"), "not both"),
        (("up", "--flush", "never"), "'never' is not one of"),
        (("up", "--retention", "long"), "a duration like"),
        (("up", "--segment-size", "1KiB"), "(from --segment-size): 1mib to 2gib is allowed"),
        (("up", "--config", "/nowhere/x.toml"), "can't read the settings file"),
        (("apply", "-f", "/nowhere/x.yaml"), "can't read /nowhere/x.yaml"),
        (("broker", "--retention", "long"), "a duration like"),
        (("broker", "--storage", "0.0.0.0:10911"), "host:port by which proxies reach this broker is needed"),
        (("broker", "--grpc", "127.0.0.1:1"), "no such option"),
        (("broker", "--data-dir", "x", "list"), "`ternmq broker list` does not take options of the server process"),
        (("broker", "drain"), "missing argument 'name'"),
        (("broker", "permission", "b", "all"), "'all' is not one of"),
        (("proxy", "--data-dir", "x"), "no such option"),
        (("proxy", "--grpc", "here"), "host:port is needed"),
        (("proxy", "--proxy-name", "x", "list"), "`ternmq proxy list` does not take options of the server process"),
        (("topic", "update", "x"), "nothing to change"),
        (("topic", "update", "x", "--permission", "some"), "'some' is not one of"),
        (("config", "--of", "all"), "'all' is not one of"),
        (("config", "--of", "proxy", "--flush", "sync"), "`ternmq proxy` has no option --flush"),
        (("config", "--registry", "x"), "`ternmq up` has no option --registry"),
        (("transaction", "list", "--state", "committed"), "'committed' is not one of"),
        (("transaction", "commit"), "missing argument 'id...'"),
        (("clock", "advance"), "missing argument 'by'"),
        (("clock", "advance", "soon"), "a duration like"),
        (("completion", "tcsh"), "'tcsh' is not one of"),
        (("group", "update", "g"), "nothing to change: give at least one setting, such as --max-attempts"),
        (("dlq", "resend", "g"), "choose letters: --all, --offset, --id, --key, --since or --until"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(call: Call, arguments: tuple[str, ...], word: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert word in result.stderr.lower()
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_a_call_without_a_command_shows_the_help(call: Call) -> None:
    result = call()
    assert "Examples:" in result.output


def test_ctrl_c_is_exit_code_130(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(platform, "python_version", interrupted)
    assert call("version").exit_code == INTERRUPTED


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(call: Call, shell: str) -> None:
    result = call("completion", shell)
    assert result.exit_code == 0
    assert f"_TERNMQ_COMPLETE={shell}_complete" in result.stdout


def test_help_lists_each_command_in_a_line(call: Call) -> None:
    lines = [" ".join(line.split()) for line in call("--help").stdout.splitlines()]
    wanted = [f"{name} {subcommand.text}" for name, subcommand in COMMANDS.items()]
    assert [line for line in lines if line in wanted] == wanted


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        (
            "from ternmq_command.main import cli; cli(['--help'])",
            (
                *("google.protobuf", "ternmq_command.topic.commands", "ternmq_command.terminal.contexts"),
                *("grpc", "asyncio", "sqlalchemy", "yaml", "rich", "ternmq_proxy"),
            ),
        ),
        (
            "from ternmq_command.topic import commands; from ternmq_command.calls import admin; "
            "from ternmq.admin import brokers, groups, messages, topics",
            ("grpc", "asyncio", "ternmq_common.settings", "ternmq.client", "ternmq.messages.message_view"),
        ),
    ],
    ids=["help", "a call of the admin service"],
)
def test_a_command_imports_only_what_it_needs(code: str, unwanted: tuple[str, ...]) -> None:
    check = f"import atexit, sys; atexit.register(lambda: print('imported', *sys.modules)); {code}"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    imported = done.stdout.splitlines()[-1].split()
    assert "click" in imported
    assert not set(unwanted) & set(imported)


@pytest.mark.slow
def test_completion_offers_subcommands_and_choices() -> None:
    def offered(words: str) -> list[str]:
        asked = {"_TERNMQ_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()))}
        environ = {**os.environ, **asked}
        command = [sys.executable, "-m", "ternmq_command.main"]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert offered("ternmq") == list(COMMANDS)
    for noun in ("topic", "broker", "transaction", "clock"):
        assert offered(f"ternmq {noun}") == sorted(path[1] for path in all_paths() if path[:1] == (noun,) and path[1:])
    assert "fifo" in offered("ternmq topic create x --type")
    assert {"pending", "discarded", "all"} == set(offered("ternmq transaction list --state"))


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("topc",), "did you mean 'topic'"),
        (("topic", "creat", "x"), "did you mean 'create'"),
        (("pipeline", "lke"), "did you mean 'lake'"),
        (("group", "offset", "rest"), "did you mean 'reset'"),
        (("broker", "dran"), "did you mean 'drain'"),
        (("topic", "list", "--jsonn"), "did you mean '--json'"),
        (("--versoin",), "did you mean '--version'"),
    ],
)
def test_a_misspelt_command_or_option_names_what_was_meant(call: Call, arguments: tuple[str, ...], meant: str) -> None:
    result = call(*arguments)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert meant in result.stderr.lower()


def test_a_command_that_is_near_to_nothing_is_just_unknown(call: Call) -> None:
    assert call("xyzzy").stderr == "ternmq: No such command 'xyzzy'. (see `ternmq --help`)\n"


def test_the_version_is_an_option_too(call: Call) -> None:
    result = call("--version")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"ternmq {metadata.version('ternmq')}\n"


def test_version_is_printed(call: Call) -> None:
    assert call("version").stdout.startswith("ternmq ")
    assert set(json.loads(call("version", "--json").stdout)) == {"ternmq", "python"}


def test_config_tells_values_and_origins(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "ternmq.toml"
    file.write_text('retention_ms = "1d"\nbroker_name = "b1"\n')
    result = call("config", "--config", str(file), "--broker-name", "b2", "--json", env={"TERNMQ_FLUSH": "async"})
    told = json.loads(result.stdout)
    assert told["retention_ms"] == {"value": 86_400_000, "from": f"file {file}"}
    assert told["broker_name"] == {"value": "b2", "from": "--broker-name"}
    assert told["flush"] == {"value": "async", "from": "TERNMQ_FLUSH"}
    assert told["segment_bytes"] == {"value": 2**30, "from": "default"}
    assert told["test_clock"] == {"value": False, "from": "default"}
    told = json.loads(call("config", "--test-clock", "--json", env={"TERNMQ_AUTO_CREATE": "off"}).stdout)
    assert told["test_clock"] == {"value": True, "from": "--test-clock"}
    assert told["auto_create"] == {"value": False, "from": "TERNMQ_AUTO_CREATE"}


def test_config_for_people_is_a_table_with_units(call: Call) -> None:
    lines = call("config", "--no-auto-create", "--segment-size", "64MiB").stdout.splitlines()
    assert lines[0].split() == ["SETTING", "VALUE", "FROM", "VARIABLE"]
    assert ["segment_bytes", "64MiB", "--segment-size", "TERNMQ_SEGMENT_BYTES"] in [line.split() for line in lines]
    assert ["auto_create", "false", "--auto-create", "TERNMQ_AUTO_CREATE"] in [line.split() for line in lines]


@pytest.mark.parametrize(("process", "settings"), [("broker", BrokerServerSettings), ("proxy", ProxySettings)])
def test_config_tells_of_each_process(call: Call, process: str, settings: type) -> None:
    environ = {"TERNMQ_REGISTRY": "postgresql://u:hidden@db/ternmq", "TERNMQ_OTLP_ENDPOINT": "http://u:hidden@c:4317"}
    told = json.loads(call("config", "--of", process, "--http", "127.0.0.1:0", "--json", env=environ).stdout)
    assert list(told) == [each.key for each in settings_of(settings).values()]
    assert told["http"] == {"value": "127.0.0.1:0", "from": "--http"}
    assert told["registry"]["from"] == "TERNMQ_REGISTRY"
    for flags in ((), ("--json",)):
        assert "hidden" not in call("config", "--of", process, *flags, env=environ).output


def test_an_unknown_variable_is_refused_with_the_nearest(call: Call) -> None:
    result = call("config", env={"TERNMQ_FLUSHH": "sync"})
    assert result.exit_code == 2
    assert result.stderr == "ternmq: unknown variable TERNMQ_FLUSHH; did you mean 'TERNMQ_FLUSH'?\n"


def a_server(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[Any], int], module_name: str = "ternmq_proxy.server.main"
) -> None:
    """`ternmq up`, or another process, will find `run` where the server is."""
    module = types.ModuleType(module_name)
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module_name, module)


def test_each_process_runs_with_its_settings_and_ends_with_its_code(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[object] = []

    def run(settings: object) -> int:
        given.append(settings)
        return 7

    a_server(monkeypatch, run)
    a_server(monkeypatch, run, "ternmq_broker.server.main")
    a_server(monkeypatch, run, "ternmq_proxy.server.cluster_main")
    assert call("up", "--data-dir", "elsewhere", "--retention", "3d", "--no-auto-create").exit_code == 7
    environ = {"TERNMQ_REGISTRY": "postgresql://db/ternmq"}
    broker = ("broker", "--broker-name", "b1", "--storage", "0.0.0.0:10911", "--advertised-storage", "b1:10911")
    assert call(*broker, env=environ).exit_code == 7
    assert call("proxy", "--proxy-name", "p1", "--no-auto-create", env=environ).exit_code == 7
    assert given == [
        ServerSettings(data_dir=Path("elsewhere"), retention_ms=3 * 86_400_000, auto_create=False),
        BrokerServerSettings(
            registry="postgresql://db/ternmq",
            broker_name="b1",
            storage="0.0.0.0:10911",
            advertised_storage="b1:10911",
        ),
        ProxySettings(registry="postgresql://db/ternmq", proxy_name="p1", auto_create=False),
    ]


SERVICE_LINKS = {
    "TERNMQ_PORT": "tcp://10.0.0.1:8081",
    "TERNMQ_SERVICE_HOST": "10.0.0.1",
    "TERNMQ_SERVICE_PORT_GRPC": "8081",
    "TERNMQ_PORT_8081_TCP_PROTO": "tcp",
}


def test_what_kubernetes_makes_of_a_service_is_one_warning(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    a_server(monkeypatch, lambda _: 7)
    for arguments, code in ((("up",), 7), (("config",), 0), (("config", "--json"), 0)):
        result = call(*arguments, env=SERVICE_LINKS)
        assert result.exit_code == code
        (line,) = result.stderr.splitlines()
        assert line.startswith("WARNING: ignored TERNMQ_PORT, TERNMQ_PORT_8081_TCP_PROTO, TERNMQ_SERVICE_HOST, ")
        assert "enableServiceLinks" in line
    result = call("up", env={**SERVICE_LINKS, "TERNMQ_FLUSHH": "sync"})
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "unknown variable TERNMQ_FLUSHH" in result.stderr


@pytest.mark.parametrize(
    ("process", "module_name"), [("broker", "ternmq_broker.server.main"), ("proxy", "ternmq_proxy.server.cluster_main")]
)
def test_one_list_of_variables_may_serve_all_processes(
    call: Call, monkeypatch: pytest.MonkeyPatch, process: str, module_name: str
) -> None:
    """What is a setting of another kind of process is told and ignored, a mistake is one as before."""
    a_server(monkeypatch, lambda _: 7, module_name)
    secret = "a-secret-of-a-test"
    variables = {"TERNMQ_INIT_SECRET": secret, "TERNMQ_RETENTION_MS": "72h", "TERNMQ_ACCESS_CONTROL": "true"}
    result = call(process, env=variables)
    assert result.exit_code == 7
    (line,) = result.stderr.splitlines()
    named = {"broker": "TERNMQ_ACCESS_CONTROL, TERNMQ_INIT_SECRET", "proxy": "TERNMQ_RETENTION_MS"}[process]
    assert line.startswith(f"WARNING: ignored {named}: settings of another kind of process")
    assert ("keep TERNMQ_INIT_SECRET from processes" in line) == (process == "broker")
    assert secret not in line
    result = call(process, env={**variables, "TERNMQ_INIT_SECRETT": secret})
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "unknown variable TERNMQ_INIT_SECRETT" in result.stderr
    assert secret not in result.stderr


def test_a_former_name_of_an_expert_setting_is_one_warning_with_the_new_one(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "ternmq.toml"
    file.write_text('clock_skew_max_ms = "2m"\n')
    result = call("config", "--of", "proxy", "--config", str(file), "--json", env={"TERNMQ_KEEPALIVE_MS": "9s"})
    told = json.loads(result.stdout)
    assert told["expert.keepalive_ms"] == {"value": 9000, "from": "TERNMQ_KEEPALIVE_MS"}
    assert told["expert.clock_skew_max_ms"]["value"] == 120_000
    (line,) = result.stderr.splitlines()
    assert line.startswith(
        "WARNING: clock_skew_max_ms is expert.clock_skew_max_ms now, TERNMQ_KEEPALIVE_MS is TERNMQ_EXP"
    )


PROCESSES = [
    ("up", "ternmq_proxy.server.main"),
    ("broker", "ternmq_broker.server.main"),
    ("proxy", "ternmq_proxy.server.cluster_main"),
]


@pytest.mark.parametrize(
    ("options", "warnings"),
    [
        (("--test-clock", "--log-level", "error"), 1),
        (("--test-clock",), 0),  # the server's log has it
        (("--test-clock", "--log-level", "error,ternmq_proxy=info"), 0),
        (("--test-clock", "--log-level", "info,ternmq_proxy=error"), 1),
        (("--log-level", "error"), 0),
    ],
)
def test_that_time_can_be_moved_is_said_once_whatever_is_logged(
    call: Call, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], warnings: int
) -> None:
    a_server(monkeypatch, lambda settings: int(settings.test_clock))
    result = call("up", *options)
    assert (result.exit_code, result.stdout) == (int("--test-clock" in options), "")
    assert result.stderr.count("WARNING: TEST CLOCK: ") == len(result.stderr.splitlines()) == warnings


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (StartupError("port 8081 is in use; choose another"), "ternmq: port 8081 is in use; choose another\n"),
        (
            ModuleNotFoundError("No module", name="sqlalchemy.orm"),
            "in a checkout of TernMQ, run pip install '.[server]'",
        ),
    ],
    ids=["port in use", "without the server's packages"],
)
@pytest.mark.parametrize(("process", "module_name"), PROCESSES)
def test_a_server_that_cannot_start_is_one_line(
    call: Call, monkeypatch: pytest.MonkeyPatch, process: str, module_name: str, error: Exception, said: str
) -> None:
    a_server(monkeypatch, Mock(side_effect=error), module_name)
    result = call(process)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert said in result.stderr
