"""`ternmq pipeline stats`, `replay`, `dlq` and `backlog`: what their words mean, and what they print, without Spark."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyspark_ternmq.pipelines import backlog, stats
from pyspark_ternmq.pipelines.backlog_plan import BacklogRefused
from pyspark_ternmq.pipelines.dead_letters import dlq
from pyspark_ternmq.pipelines.dead_letters.dlq_repair import WrongRepair
from pyspark_ternmq.pipelines.dead_letters.dlq_report import Analysis, LetterFailure, LetterKind
from pyspark_ternmq.pipelines.journal import JournalError
from pyspark_ternmq.pipelines.lake import TooManyMalformed
from pyspark_ternmq.pipelines.replaying import replay
from pyspark_ternmq.pipelines.replaying.replay_source import WrongRows
from pyspark_ternmq.pipelines.snapshots.finding import WrongSource
from pyspark_ternmq.pipelines.snapshots.snapshot import TableSettings
from ternmq.errors import ConnectionFailed, NotFound
from ternmq_command.main import cli
from ternmq_command.pipeline import session as pipeline_running
from ternmq_command.terminal.failures import ServerUnreachable, WrongUsage
from ternmq_protos.v2 import definition_pb2 as pb

HOUR = datetime(2026, 8, 1, 12, tzinfo=UTC)
STATS = stats.StatsReport(windows=7, messages=120, batches=2, dropped=0)
REPLAY = replay.ReplayReport(replay_id="id", sent=90, skipped=1, steps=5, steps_before=2, latest_s=0.25)
BACKLOG = backlog.BacklogReport(planned=10, moved=10, missing=0, steps=1, queues=64)
Asked = list[Any]


@pytest.fixture(autouse=True)
def _no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def session(name: str, spark_at: object) -> Iterator[None]:
        del name, spark_at
        yield None

    monkeypatch.setattr(pipeline_running, "spark_session_for", session)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Asked]:
    """Lets a pipeline answer with a report, or fail; what it was asked to do."""

    def answering(module: Any, answer: object) -> Asked:  # noqa: ANN401
        asked: Asked = []

        def run(spark: None, options: object, **_: object) -> object:
            del spark
            asked.append(options)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(module, "run", run)
        return asked

    return answering


def ternmq(*words: str) -> Result:
    return CliRunner().invoke(cli, ("pipeline", *words))


def test_stats_end_with_what_is_there(runs: Callable[..., Asked]) -> None:
    asked = runs(stats, STATS)
    result = ternmq("stats", "--topics", "orders, payments", "--out", "folder/", "--by", "topic,key", "--window", "1h")
    assert result.stdout == "7 rows of 120 messages to folder/\n"
    [told] = asked
    assert (told.topics, told.by, told.window) == (["orders", "payments"], ["topic", "key"], timedelta(hours=1))
    assert (told.checkpoint, told.trigger, told.delay) == ("folder/_checkpoint", None, timedelta(minutes=10))


def test_stats_say_what_waits_in_open_windows(runs: Callable[..., Asked]) -> None:
    runs(stats, dataclasses.replace(STATS, waiting=1200, closes_at=HOUR))
    result = ternmq("stats", "--topics", "orders", "--out", "folder")
    assert result.stdout == (
        "7 rows of 120 messages to folder; 1,200 rows of open windows wait in the checkpoint until a message comes "
        "that was stored at 2026-08-01T12:00:00Z or later\n"
    )
    found = json.loads(ternmq("stats", "--topics", "orders", "--out", "folder", "--json").stdout)
    assert (found["waiting"], found["closes_at"]) == (1200, "2026-08-01T12:00:00Z")


def test_stats_that_go_on_look_every_ten_seconds(runs: Callable[..., Asked]) -> None:
    asked = runs(stats, STATS)
    assert ternmq("stats", "--topics", "a", "--to", "b", "--checkpoint", "c", "--continuous").exit_code == 0
    assert asked[0].trigger == timedelta(seconds=10)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("stats", "--topics", "a", "--to", "b"), "--checkpoint is needed without --out"),
        (("stats", "--topics", "a", "--out", "o", "--trigger", "1s"), "--trigger goes with --continuous"),
        (("stats", "--topics", "a", "--out", "o", "--by", "queue"), "by=queue must be some of topic, tag, key"),
        (("replay", "--from", "f", "--to", "t", "--rate", "1", "--pace", "1"), "exclude each other"),
        (("dlq", "--group", "g", "--send"), "--send needs --checkpoint"),
        (
            ("backlog", "--group", "g", "--topic", "t", "--to", "t", "--queues", "2", "--checkpoint", "c"),
            "--topic and --to are the same topic",
        ),
    ],
)
def test_wrong_words_are_told_before_anything_starts(words: tuple[str, ...], problem: str) -> None:
    result = ternmq(*words)
    assert result.exit_code == WrongUsage.exit_code
    assert problem in result.stderr


def test_numbers_are_written_alike_everywhere(runs: Callable[..., Asked]) -> None:
    runs(replay, dataclasses.replace(REPLAY, sent=182_419, doubles=1_000))
    text = ternmq("replay", "--from", "a", "--to", "t").stdout
    assert text.startswith("sent 182,419 messages to t in 3 steps")
    assert "; 1,000 rows left out, since their messages occur more than once" in text


def test_a_replay_reads_tables_as_it_is_told(runs: Callable[..., Asked]) -> None:
    asked = runs(replay, REPLAY)
    words = ("--catalog", "prod", "--catalog-option", "uri=u", "--namespace", "shop", "--storage-option", "a=b")
    assert ternmq("replay", "--from", "lake", "--to", "t", *words).exit_code == 0
    [told] = asked
    assert told.file_format is None
    assert told.tables == TableSettings(
        storage_options={"a": "b"}, catalog="prod", catalog_options={"uri": "u"}, namespace="shop"
    )


def test_a_replay_says_how_it_went(runs: Callable[..., Asked]) -> None:
    asked = runs(replay, REPLAY)
    result = ternmq("replay", "--from", "a", "--from", "b", "--to", "t", "--pace", "2", "--since", "2026-08-01T12:00Z")
    assert result.stdout == (
        "sent 90 messages to t in 3 steps; 2 steps were done before; 1 row can't be sent; "
        "the latest step was done 0.2 s after its time\n"
    )
    [told] = asked
    assert (told.paths, told.speed, told.since, told.keep_ids) == (("a", "b"), 2.0, HOUR, False)


def test_a_report_is_json_if_that_is_asked_for(runs: Callable[..., Asked]) -> None:
    runs(replay, REPLAY)
    assert json.loads(ternmq("replay", "--from", "a", "--to", "t", "--json").stdout)["sent"] == 90


def letters(
    *, sent: int = 0, ready: int = 0, left: int = 0, failed: int = 0, failures: Sequence[LetterFailure] = ()
) -> dlq.DlqReport:
    analysis = Analysis(
        {LetterKind("attempts", "orders", None, 3, HOUR): 2, LetterKind("forwarded", "orders", "paid", 1, HOUR): 1}
    )
    return dlq.DlqReport(
        letters=3, analysis=analysis, sent=sent, ready=ready, left=left, failed=failed, failures=list(failures)
    )


def test_dead_letters_are_a_table_of_their_kinds(runs: Callable[..., Asked]) -> None:
    runs(dlq, letters())
    lines = ternmq("dlq", "--group", "billing").stdout.splitlines()
    assert lines[0].split() == ["REASON", "ORIGIN", "TOPIC", "TAG", "ATTEMPTS", "HOUR", "LETTERS"]
    assert lines[1].split() == ["attempts", "orders", "-", "3", "2026-08-01T12:00:00Z", "2"]
    assert lines[-1] == "3 dead letters"


def test_letters_that_failed_make_the_exit_code_1(runs: Callable[..., Asked]) -> None:
    runs(dlq, letters(sent=1, left=1, failed=1))
    result = ternmq("dlq", "--group", "billing", "--send", "--checkpoint", "c", "--repair", "m:f")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "3 dead letters: 1 sent, 1 left, 1 failed"
    runs(dlq, letters(ready=3))
    result = ternmq("dlq", "--group", "billing", "--repair", "m:f", "--json")
    assert (result.exit_code, json.loads(result.stdout)["ready"]) == (0, 3)


def test_letters_that_failed_are_named_with_the_reason(runs: Callable[..., Asked]) -> None:
    failures = [
        LetterFailure("broker-0", 0, number, f"id-{number}", "orders", f"KeyError: 'currency'\n  of letter {number}")
        for number in range(30)
    ]
    runs(dlq, letters(sent=1, failed=40, failures=failures))
    result = ternmq("dlq", "--group", "billing", "--repair", "m:f")
    lines = result.stderr.splitlines()
    assert lines[0] == "failed: broker-0/0 offset 0 (id id-0, of orders): KeyError: 'currency' of letter 0"
    assert lines[-1] == "and 20 more; --report writes them all"
    assert len(lines) == 21
    failed = json.loads(ternmq("dlq", "--group", "billing", "--repair", "m:f", "--json").stdout)["failures"]
    assert (len(failed), failed[29]["offset"], failed[29]["origin_topic"]) == (30, 29, "orders")


def test_no_letters_are_no_table(runs: Callable[..., Asked]) -> None:
    runs(dlq, dlq.DlqReport())
    result = ternmq("dlq", "--group", "billing")
    assert (result.stdout, result.stderr) == ("", "group billing has no dead letters that were not handled\n")


def test_a_backlog_that_moved_says_what_to_do_next(runs: Callable[..., Asked]) -> None:
    asked = runs(backlog, BACKLOG)
    words = ("backlog", "--group", "g", "--topic", "t", "--to", "w", "--queues", "64", "--checkpoint", "c", "--yes")
    result = ternmq(*words)
    assert result.stdout == "moved 10 messages of t to w for group g\n"
    assert "let consumers of g subscribe to w" in result.stderr
    assert (asked[0].queues, asked[0].include_in_flight) == (64, False)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (JournalError("in use"), 1),
        (BacklogRefused("busy"), 1),
        (NotFound(pb.TOPIC_NOT_FOUND, "no such topic"), 1),
        (OSError("disk full"), 1),
        (WrongRepair("no such function"), 2),
        (WrongSource("a folder of a table"), 2),
        (WrongRows("no column body"), 1),
        (TooManyMalformed("9 of 10 rows of batch 0 are malformed"), 1),
        (ConnectionFailed("h:1", "QueryRoute: UNAVAILABLE: refused"), 3),
    ],
)
def test_errors_with_a_name_are_failures_of_one_line(runs: Callable[..., Asked], error: Exception, code: int) -> None:
    runs(dlq, error)
    result = ternmq("dlq", "--group", "g")
    assert result.exit_code == code
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("ternmq: ")
    if code == ServerUnreachable.exit_code:
        assert result.stderr.count("h:1") == 1


def test_a_bug_is_not_dressed_up(runs: Callable[..., Asked]) -> None:
    runs(dlq, KeyError("bug"))
    assert isinstance(ternmq("dlq", "--group", "g").exception, KeyError)
