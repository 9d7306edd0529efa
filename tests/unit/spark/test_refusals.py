"""Refusals are said in a line, at the beginning and at the end, and nothing else loses its traceback."""

import os
import sys

import pytest
from pyspark.errors import StreamingQueryException

from pyspark_ternmq import last_line
from pyspark_ternmq.options import WrongOption
from pyspark_ternmq.refusals import in_one_line

HIDE = "SPARK_HIDE_TRACEBACK"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, HIDE, "")


@in_one_line()
def fail(error: Exception) -> None:
    raise error


def test_a_worker_hides_the_traceback_of_a_refusal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.worker_util", sys)
    with pytest.raises(KeyError):
        fail(KeyError("a mistake"))
    assert not os.environ[HIDE]
    with pytest.raises(WrongOption):
        fail(WrongOption("a refusal"))
    assert os.environ[HIDE]


def test_the_process_of_the_user_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyspark.worker_util", raising=False)
    with pytest.raises(WrongOption):
        fail(WrongOption("a refusal"))
    assert not os.environ[HIDE]


def test_the_last_line_of_a_script_is_the_refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "excepthook", lambda _kind, error, _trace: sys.stderr.write(f"{error}\n"))
    last_line.print_refusals_last()
    refused = StreamingQueryException(
        "[STREAM_FAILED] Failed: ternmq.errors.NotFound: TOPIC_NOT_FOUND: there is no topic 'a'\n=== Streaming ==="
    )
    sys.excepthook(type(refused), refused, None)
    assert capsys.readouterr().err.splitlines()[-1] == "ternmq: TOPIC_NOT_FOUND: there is no topic 'a'"
    for other in (StreamingQueryException("disk full"), RuntimeError("ternmq.errors.NotFound: elsewhere")):
        sys.excepthook(type(other), other, None)
        assert capsys.readouterr().err == f"{other}\n"
