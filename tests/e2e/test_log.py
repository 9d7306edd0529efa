"""What an operator reads in the log of a server, as a process."""

import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest

from ternmq import Message
from ternmq.blocking import Producer
from ternmq_rpc.build_form import is_compiled
from tests.support.stack import Stack
from tests.support.workers import WorkerStack

pytestmark = pytest.mark.slow


def lines(stack: Stack, containing: str) -> list[str]:
    return [line for line in stack.log.read_text().splitlines() if containing in line]


def test_the_start_is_one_line_with_what_the_server_is(tmp_path: Path) -> None:
    with Stack(tmp_path, "--flush", "async", "--log-format", "json") as stack:
        (line,) = lines(stack, "is ready")
        assert lines(stack, "TEST CLOCK") == []
        said = lines(stack, "runs in plain Python")
    assert ["TERNMQ_COMPILE=1 pip install" in each for each in said] == ([] if is_compiled() else [True])
    message = json.loads(line)["message"]
    assert f"ternmq {version('ternmq')} is ready grpc={stack.grpc} http={stack.http}; " in message
    assert f"data directory {stack.data_dir}; " in message
    assert "flush=async" in message
    assert "log_format=json" in message
    assert "retention_ms" not in message


def test_a_server_that_logs_errors_alone_says_all_the_same_that_its_time_can_be_moved(tmp_path: Path) -> None:
    with Stack(tmp_path, "--test-clock", "--log-level", "error") as stack:
        assert len(lines(stack, "TEST CLOCK")) == 1


def test_a_server_of_several_processes_says_it_once(tmp_path: Path) -> None:
    with WorkerStack(tmp_path, "--workers", "2") as stack:
        (line,) = lines(stack, " is ready ")
        assert len(lines(stack, "runs in plain Python")) == (0 if is_compiled() else 1)
    assert "supervisor" in line
    assert f"grpc={stack.grpc}" in line
    assert "workers=2" in line


def test_debug_tells_of_our_packages_and_no_others(tmp_path: Path) -> None:
    with Stack(tmp_path, "--log-level", "debug") as stack:
        with Producer(stack.grpc) as producer:
            producer.send(Message("orders", b"body"))
        stack.terminate()
        loggers = {
            match[1]
            for line in stack.log.read_text().splitlines()
            if (match := re.match(r"\S+ \S+ \w+ +([\w.]+):", line))
        }
    assert loggers
    assert {name.partition(".")[0] for name in loggers} <= {
        "ternmq_common",
        "ternmq_console",
        "ternmq_proxy",
        "ternmq_broker",
        "ternmq_registry",
        "ternmq_runtime",
    }
