"""The demo, whole: broker, sender and consumers as processes, on the real flights."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ternmq.blocking import Producer
from ternmq_command.demo.batch_reports import BatchReport
from ternmq_command.demo.flights import build_message, data_file, read_rows
from ternmq_command.demo.replay import create_topic_and_group
from tests.support.stack import Stack

pytestmark = pytest.mark.slow
MESSAGES = 5000
LONGER_THAN_ONE_START_TRIES_S = 3.0
TIMEOUT_S = 30.0


def command(folder: Path, *options: str) -> list[str]:
    demo = [sys.executable, "-m", "ternmq_command.demo", "--messages", str(MESSAGES), "--data-dir", str(folder)]
    return [*demo, *options]


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(folder, *options), capture_output=True, text=True, check=False, timeout=100)


def test_a_kill_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "--kill-server")
    assert done.returncode == 0, done.stderr
    assert f"{MESSAGES:,} of {MESSAGES:,} flights were consumed, none lost" in done.stdout
    assert "kill -9 " in done.stdout


def test_a_consumer_that_starts_while_the_broker_is_away_waits_for_it(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    consumer = [sys.executable, "-m", "ternmq_command.demo.consumer", stack.grpc]
    with subprocess.Popen(consumer, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(LONGER_THAN_ONE_START_TRIES_S)
        with stack, Producer(stack.grpc) as producer:
            create_topic_and_group(stack.grpc)
            [(number, row)] = read_rows(data_file(), 1)
            producer.send(build_message(number, row))
            assert process.stdout is not None
            [flight] = BatchReport.decode_line(process.stdout.readline()).flights
            assert flight.row == number
            process.terminate()
            assert process.wait(TIMEOUT_S) == 0


def test_a_demo_that_was_stopped_is_continued(tmp_path: Path) -> None:
    with subprocess.Popen(command(tmp_path), stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        for line in demo.stderr:
            if re.search(r"sent [\d,]+ ", line):
                demo.send_signal(signal.SIGINT)
                break
        rest = demo.stderr.read()
    assert demo.returncode == 130
    assert "stopped; run it again to continue" in rest
    again = run(tmp_path)
    assert again.returncode == 0, again.stderr
    assert "continuing: " in again.stderr
    assert f"{MESSAGES:,} of {MESSAGES:,} flights were consumed, none lost" in again.stdout


def test_a_demo_tells_its_figures_once_more_when_it_is_finished_and_a_fresh_one_starts_over(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    consumed = f"{MESSAGES:,} of {MESSAGES:,} flights were consumed"
    assert f"{consumed}, none lost; none came twice" in done.stdout
    for word in ("sent ", "consumed ", "latency ", "p99", "memory ", "busiest carriers ", "EWR"):
        assert word in done.stdout
    again = run(tmp_path)
    assert again.returncode == 0
    assert "--fresh starts over" in again.stderr
    assert consumed in again.stdout
    fresh = run(tmp_path, "--fresh", "--messages", "100")
    assert "broker ready" in fresh.stderr
    assert fresh.returncode == 0
