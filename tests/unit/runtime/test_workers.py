"""What a supervisor decides and says, without processes; and processes that are none of ours."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ternmq_common.errors import StartupError
from ternmq_common.server_settings import ProxySettings, ServerSettings
from ternmq_runtime.workers import health
from ternmq_runtime.workers.child_process import ChildProcess, ProcessKilled, describe_exit
from ternmq_runtime.workers.health import ProcessHealth
from ternmq_runtime.workers.metrics_text import join_metrics
from ternmq_runtime.workers.process_keeper import ProcessKeeper
from ternmq_runtime.workers.restarts import FIRST_S, LONGEST_S, STEADY_S, RestartBackoff
from ternmq_runtime.workers.worker_place import WorkerPlace, decode_place, encode_place
from tests.support.until import until

WELL, ILL = ProcessHealth(is_well=True, status="ready"), ProcessHealth(is_well=False, status="the disk is full")

# --- when somebody is started again


def test_who_dies_for_the_first_time_is_started_again_at_once() -> None:
    places = RestartBackoff()
    places.record_start(0.0)
    assert places.record_death(1.0) == 0.0
    assert places.is_worth_logging
    assert not places.is_often


def test_the_wait_grows_with_each_death_up_to_a_limit() -> None:
    places = RestartBackoff()
    waits = [places.record_death(0.1) for _ in range(40)]
    assert waits == sorted(waits)
    assert waits[:4] == [0.0, 0.5, 1.0, 2.0]
    assert waits[-1] == LONGEST_S
    assert places.count == 40


def test_many_deaths_are_told_once() -> None:
    places = RestartBackoff()
    told_of = [(places.record_death(0.1), places.is_worth_logging, places.is_often)[1:] for _ in range(6)]
    assert told_of == [(True, False), (True, False), (True, True), (False, True), (False, True), (False, True)]


def test_who_has_lasted_is_taken_for_well() -> None:
    places = RestartBackoff()
    for _ in range(5):
        places.record_death(0.1)
    places.record_start(100.0)
    assert places.record_death(100.0 + STEADY_S) == 0.0
    assert places.count == 6
    places.record_start(100.0 + STEADY_S)
    assert places.record_death(100.0 + STEADY_S) == FIRST_S


# --- health


def test_a_server_is_ready_while_its_broker_and_one_worker_are() -> None:
    assert health.combine_ready({"broker": WELL, "worker-0": WELL, "worker-1": WELL}) == (200, {"status": "ready"})
    code, content = health.combine_ready({"broker": WELL, "worker-0": None, "worker-1": WELL})
    assert (code, content) == (200, {"status": "ready", "degraded": "worker-0: it does not answer"})
    assert health.combine_ready({"broker": WELL, "worker-0": None, "worker-1": ILL})[0] == 503
    assert health.combine_ready({"broker": ILL, "worker-0": WELL}) == (503, {"status": "broker: the disk is full"})
    assert health.combine_ready({"broker": None, "worker-0": WELL})[0] == 503


def test_proxies_of_a_cluster_have_no_broker_here() -> None:
    assert health.combine_ready({"worker-0": WELL, "worker-1": ILL})[0] == 200
    assert health.combine_ready({"worker-0": ILL, "worker-1": ILL}) == (503, {"status": "worker-0: the disk is full"})


def test_what_is_amiss_at_one_is_told_beside() -> None:
    said = {"broker": ProcessHealth(is_well=True, status="ready", degraded="a record is damaged"), "worker-0": WELL}
    assert health.combine_ready(said)[1]["degraded"] == "broker: a record is damaged"


def test_a_process_that_hangs_is_not_live_and_one_that_died_is_started_again() -> None:
    said = {"broker": WELL, "worker-0": None}
    assert health.combine_live(said, frozenset({"broker"})) == (200, {"status": "live"})
    assert health.combine_live(said, frozenset(said)) == (503, {"status": "worker-0: it does not answer"})
    assert health.combine_live({"worker-0": ILL}, frozenset({"worker-0"}))[0] == 503


# --- metrics

SENT = "# HELP sent_total Messages\n# TYPE sent_total counter\n"


def test_each_family_is_there_once_and_each_series_says_whose_it_is() -> None:
    text = join_metrics(
        {
            "worker-0": f'{SENT}sent_total{{topic="a b"}} 1.0\nsent_total{{topic="c"}} 2.0\n',
            "worker-1": f'# TYPE up gauge\nup 1.0\n{SENT}sent_total{{topic="a b"}} 3.0\n',
        }
    )
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert text.count("# TYPE sent_total counter") == 1
    assert [(sample.labels, sample.value) for sample in families["sent"].samples] == [
        ({"worker": "worker-0", "topic": "a b"}, 1.0),
        ({"worker": "worker-0", "topic": "c"}, 2.0),
        ({"worker": "worker-1", "topic": "a b"}, 3.0),
    ]
    assert [sample.labels for sample in families["up"].samples] == [{"worker": "worker-1"}]


def test_nobody_s_metrics_are_an_empty_text() -> None:
    assert join_metrics({}) == ""


def test_a_label_s_value_may_hold_what_is_syntax_elsewhere() -> None:
    (family,) = text_string_to_metric_families(join_metrics({"worker-0": '# TYPE a gauge\na{b="} # {x"} 1\na{} 2\n'}))
    first = {"worker": "worker-0", "b": "} # {x"}
    assert [sample.labels for sample in family.samples] == [first, {"worker": "worker-0"}]


# --- what a process is told


@pytest.mark.parametrize(
    "settings",
    [
        ServerSettings(workers=3, data_dir=Path("a folder/ä"), log_level="debug,hpack=info", disk_free_min_bytes=None),
        ProxySettings(workers=2, registry="postgresql://u@h:1/d", otlp_endpoint="http://h:1", trace_ratio=0.5),
    ],
)
def test_a_process_hears_what_it_was_told(settings: ServerSettings | ProxySettings) -> None:
    place = WorkerPlace(name="worker-1", member="broker-0-1", folder=Path("/tmp/x"), is_restart=True)
    assert decode_place(encode_place(place, settings), type(settings)) == (place, settings)


# --- processes

PROGRAM = """
import pathlib, signal, sys
sys.stdin.buffer.readline()
place = pathlib.Path(sys.argv[1])
place.write_text(str(int(place.read_text()) + 1) if place.exists() else "1")
MORE
"""
SERVES = "print('ready', flush=True); sys.stdin.read()"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def program(folder: Path, more: str) -> tuple[str, str]:
    """A module that says in a file how often it was started, and goes on so."""
    (folder / "started_here.py").write_text(PROGRAM.replace("MORE", more))
    return "started_here", str(folder / "starts")


def starts(folder: Path) -> int:
    return int((folder / "starts").read_text())


@pytest.fixture
async def keepers() -> AsyncIterator[list[ProcessKeeper]]:
    kept: list[ProcessKeeper] = []
    yield kept
    for keeper in kept:
        await keeper.end_process(5.0)


def kept(folder: Path, command: tuple[str, ...], lost: list[str] | None = None) -> ProcessKeeper:
    place = WorkerPlace(name="worker-0", member="w", folder=folder)
    return ProcessKeeper(place, ServerSettings(), command, lost=None if lost is None else lost.append)


async def test_who_is_killed_is_followed_by_another(folder: Path, keepers: list[ProcessKeeper]) -> None:
    keeper = kept(folder, program(folder, SERVES))
    keepers.append(keeper)
    await keeper.start_process()
    assert keeper.serves
    keeper._child._send_signal(signal.SIGKILL)
    await until(lambda: keeper.restarts.count == 1)
    await until(lambda: keeper.serves)
    assert starts(folder) == 2


async def test_one_that_can_not_begin_again_is_told_of_once(folder: Path, keepers: list[ProcessKeeper]) -> None:
    fails = "print('ready' if place.read_text() == '1' else 'failed the disk is gone', flush=True)"
    lost: list[str] = []
    keeper = kept(folder, program(folder, fails), lost)
    keepers.append(keeper)
    await keeper.start_process()
    await until(lambda: bool(lost))
    assert lost == ["worker-0 can't be started again: the disk is gone"]
    assert starts(folder) == 2


async def test_a_worker_that_can_not_begin_again_is_tried_again(folder: Path, keepers: list[ProcessKeeper]) -> None:
    fails_once = f"if place.read_text() == '2': print('failed for now', flush=True); sys.exit(1)\n{SERVES}"
    keeper = kept(folder, program(folder, fails_once))
    keepers.append(keeper)
    await keeper.start_process()
    keeper._child._send_signal(signal.SIGKILL)
    await until(lambda: keeper.restarts.count == 2 and keeper.serves)
    assert starts(folder) == 3


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ("print('failed no room', flush=True)", StartupError, "^no room$"),
        ("sys.exit(3)", StartupError, "ended with exit code 3 before it served"),
        ("signal.raise_signal(signal.SIGKILL)", ProcessKilled, "was ended by SIGKILL before it served"),
    ],
)
async def test_why_a_process_did_not_begin_is_told(
    folder: Path, more: str, error: type[StartupError], text: str
) -> None:
    child = ChildProcess("worker-0", *program(folder, more))
    with pytest.raises(StartupError, match=text) as raised:
        await child.start_serving(b"line\n")
    assert type(raised.value) is error
    await child.wait_ended()


async def test_who_does_not_end_in_time_is_ended(folder: Path) -> None:
    stays = f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{SERVES}"
    child = ChildProcess("worker-0", *program(folder, stays))
    await child.start_serving(b"line\n")
    await child.end_process(0.0)
    assert await child.wait_ended() == -signal.SIGKILL


async def test_who_ends_is_not_started_again(folder: Path) -> None:
    keeper = kept(folder, program(folder, SERVES))
    await keeper.start_process()
    await keeper.end_process(5.0)
    await asyncio.sleep(0)
    assert not keeper.serves
    assert starts(folder) == 1


def test_who_is_told_nothing_ends() -> None:
    command = [sys.executable, "-P", "-m", "ternmq_proxy.server.worker", "up", "worker-0"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_endings_are_told_in_words() -> None:
    assert describe_exit(2) == "ended with exit code 2"
    assert describe_exit(-9) == "was ended by SIGKILL"
    assert describe_exit(-200) == "was ended by signal 200"
