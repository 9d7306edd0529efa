"""`ternmq pipeline lake` and `compact`: what their words mean, without Spark."""

import importlib.util
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from pyspark_ternmq.decoding.avro_format import AvroFormat
from pyspark_ternmq.decoding.avro_schema import AvroSchema
from pyspark_ternmq.decoding.protobuf_body import ProtobufFormat
from pyspark_ternmq.decoding.protobuf_schema import ProtobufSchema
from pyspark_ternmq.decoding.schema_registry.registered_avro import RegisteredAvro
from pyspark_ternmq.decoding.schema_registry.registry import RegistryAddress, RegistryFailed
from pyspark_ternmq.decoding.schema_registry.subject import AvroOfSubject
from pyspark_ternmq.pipelines import lake
from pyspark_ternmq.pipelines.connection import PipelineConnection
from pyspark_ternmq.pipelines.lake.job import is_too_much
from pyspark_ternmq.pipelines.lake.options import MALFORMED_MIN
from ternmq.errors import TransportError
from ternmq_command.main import cli
from ternmq_command.pipeline import session as pipeline_running
from ternmq_command.pipeline.options import SparkOptions
from ternmq_command.terminal.failures import ServerUnreachable

LAKE = ("pipeline", "lake", "--topics", "orders, payments", "--out", "folder")
AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
_ID = FieldDescriptorProto(name="id", number=1, type=FieldDescriptorProto.TYPE_INT64)
PROTO = FileDescriptorProto(
    name="order.proto", package="shop", message_type=[DescriptorProto(name="Order", field=[_ID])]
)
REPORT = lake.LakeReport(rows=1200, late=3, malformed=1, duplicates=1, batches=2, files=4)


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[SparkOptions]:
    """No Spark is started; what it would have been told."""
    told = list[SparkOptions]()

    @contextmanager
    def session(name: str, spark_at: SparkOptions) -> Iterator[None]:
        assert name.startswith("ternmq ")
        told.append(spark_at)
        yield None

    monkeypatch.setattr(pipeline_running, "spark_session_for", session)
    return told


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, sessions: list[SparkOptions]) -> list[lake.LakeOptions]:
    """What the pipeline was asked to do."""
    del sessions
    asked = list[lake.LakeOptions]()

    def run(spark: None, options: lake.LakeOptions, *, line: object) -> lake.LakeReport:
        del spark, line
        asked.append(options)
        return REPORT

    monkeypatch.setattr(lake, "run", run)
    return asked


def ternmq(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(cli, arguments, env=environment)


def test_a_run_without_more_words_takes_what_is_there(runs: list[lake.LakeOptions]) -> None:
    result = ternmq(*LAKE)
    assert result.stdout == (
        "1,200 rows to folder in 2 batches, 4 files; apart: 3 late, 1 malformed; dropped: 1 duplicate\n"
    )
    (options,) = runs
    assert options == lake.LakeOptions(
        connection=options.connection, topics=["orders", "payments"], out="folder", json_schema=None
    )
    assert options.connection.options() == {"endpoint": "127.0.0.1:8081"}
    assert options.checkpoint_folder == "folder/_checkpoint"


def test_every_word_counts(runs: list[lake.LakeOptions], sessions: list[SparkOptions]) -> None:
    words = "--continuous --trigger 30s --starting latest --max-offsets-per-trigger 9 --tag a||b --group g --compact"
    more = "--event-time stored --dedup-window 10m --lateness 2h --checkpoint c --compact-every 7 --older-than 3h"
    rest = "--target-bytes 1GiB --min-files 2 --endpoint h:1 --ca ca --request-timeout 2s --source-option a=b"
    spark = "--master local[3] --conf x=y --verbose"
    filters = ("--filter", "n > 1", "--json-schema", "id long", "--max-malformed", "0.1")
    result = ternmq(*LAKE, *words.split(), *more.split(), *rest.split(), *spark.split(), *filters)
    assert result.exit_code == 0, result.output
    (options,) = runs
    assert options == lake.LakeOptions(
        connection=options.connection,
        topics=["orders", "payments"],
        out="folder",
        checkpoint="c",
        starting="latest",
        max_offsets_per_trigger=9,
        tag="a||b",
        filter="n > 1",
        group="g",
        source_options={"a": "b"},
        event_time="stored",
        dedup_window=timedelta(minutes=10),
        lateness=timedelta(hours=2),
        json_schema="id long",
        max_malformed=0.1,
        trigger=timedelta(seconds=30),
        compaction=lake.CompactionOptions(older_than=timedelta(hours=3), target_bytes=1 << 30, min_files=2),
        compact_every_batches=7,
    )
    wanted = {"endpoint": "h:1", "tls": "true", "tlsCaFile": "ca", "requestTimeoutMs": "2000"}
    assert options.connection.options() == wanted
    assert sessions == [SparkOptions(master="local[3]", config={"spark.log.level": "WARN", "x": "y"}, is_verbose=True)]


@pytest.mark.parametrize(
    ("malformed", "others", "share", "trigger", "expected"),
    [
        (6, 4, 0.5, None, True),
        (5, 5, 0.5, None, False),
        (1, 0, 0.5, None, True),
        (1, 1000, 0, None, True),
        (0, 0, 0, None, False),
        (10, 0, 1, None, False),
        # Of a pipeline that goes on, a few are no sign of a wrong schema.
        (MALFORMED_MIN - 1, 0, 0.5, timedelta(seconds=1), False),
        (MALFORMED_MIN, 0, 0.5, timedelta(seconds=1), True),
    ],
)
def test_more_malformed_rows_than_are_allowed_are_too_much(
    malformed: int, others: int, share: float, trigger: timedelta | None, *, expected: bool
) -> None:
    connection = PipelineConnection(endpoint="h:1")
    options = lake.LakeOptions(connection=connection, topics=["a"], out="o", max_malformed=share, trigger=trigger)
    assert is_too_much({"data": others, "late": 0, "malformed": malformed}, options) is expected


def test_schemas_come_from_files(runs: list[lake.LakeOptions], tmp_path: Path) -> None:
    avsc, descriptor = tmp_path / "order.avsc", tmp_path / "order.set"
    avsc.write_text(AVRO)
    descriptor.write_bytes(FileDescriptorSet(file=[PROTO]).SerializeToString())
    ternmq(*LAKE, "--avro-schema", str(avsc))
    ternmq(*LAKE, "--protobuf-descriptor", str(descriptor), "--protobuf-message", "shop.Order")
    assert [options.decoding for options in runs] == [
        AvroFormat(AvroSchema(AVRO)),
        ProtobufFormat(ProtobufSchema(descriptor.read_bytes(), "shop.Order")),
    ]


def test_a_schema_registry_has_keys_of_a_file_or_of_variables(runs: list[lake.LakeOptions], tmp_path: Path) -> None:
    avsc, keys, ca = tmp_path / "order.avsc", tmp_path / "keys", tmp_path / "ca"
    avsc.write_text(AVRO)
    keys.write_text('user = "who"\npassword = "hush"\n')
    ca.write_text("PEM")
    url = ("--schema-registry", "https://registry/v7")
    more = ("--schema-registry-credentials-file", str(keys), "--schema-registry-ca", str(ca))
    outputs = [
        ternmq(*LAKE, *url, "--schema-registry-subject", "orders-value", *more),
        ternmq(
            *LAKE,
            *url,
            "--avro-schema",
            str(avsc),
            TERNMQ_SCHEMA_REGISTRY_USER="u",
            TERNMQ_SCHEMA_REGISTRY_PASSWORD="p",
        ),
    ]
    assert [output.exit_code for output in outputs] == [0, 0]
    assert [options.decoding for options in runs] == [
        AvroOfSubject(
            "orders-value", RegistryAddress("https://registry/v7", user="who", password="hush", ca_pem="PEM")
        ),
        RegisteredAvro(AvroSchema(AVRO), RegistryAddress("https://registry/v7", user="u", password="p")),
    ]
    assert "hush" not in repr(runs)


@pytest.mark.parametrize("text", ["user = hush", 'user = "who"', 'user = "who"\npassword = 7\n', 'password = "hush"'])
def test_a_file_of_keys_that_is_none_is_told_without_them(
    runs: list[lake.LakeOptions], tmp_path: Path, text: str
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(text)
    words = ("--schema-registry", "https://r", "--schema-registry-subject", "s")
    result = ternmq(*LAKE, *words, "--schema-registry-credentials-file", str(keys))
    assert (result.exit_code, runs, "hush" in result.output) == (2, [], False)
    assert str(keys) in result.stderr


def test_a_registry_that_fails_is_one_line(
    monkeypatch: pytest.MonkeyPatch, sessions: list[SparkOptions], tmp_path: Path
) -> None:
    del sessions, tmp_path

    def run(*_: object, line: object) -> None:
        del line
        raise RegistryFailed("the schema registry is away")

    monkeypatch.setattr(lake, "run", run)
    result = ternmq(*LAKE)
    assert (result.exit_code, result.stderr) == (1, "ternmq: the schema registry is away\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--schema-registry http://r", "needs to know the columns"),
        ("--schema-registry-subject s", "go with --schema-registry"),
        ("--avro-schema avsc --schema-registry-ca set", "go with --schema-registry"),
        ("--schema-registry http://r --schema-registry-subject s --avro-schema avsc", "exclude each other"),
        ("--schema-registry r:8081 --avro-schema avsc", "http://host:port"),
        ("--schema-registry http://u:hush@r --avro-schema avsc", "don't belong into its address"),
        ("--avro-schema avsc --protobuf-descriptor set --protobuf-message a", "exclude each other"),
        ("--avro-schema avsc --json-schema a", "bodies have one format"),
        ("--protobuf-descriptor set", "go together"),
        ("--protobuf-message a", "go together"),
        (
            "--protobuf-descriptor set --protobuf-message shop.Ordre",
            "set: the descriptor set has no message shop.Ordre",
        ),
        ("--protobuf-descriptor avsc --protobuf-message shop.Order", "avsc: no FileDescriptorSet"),
        ("--avro-schema set", "set: no Avro schema"),
        ("--avro-schema none", "does not exist"),
    ],
)
def test_wrong_schemas_are_told_before_spark_is_started(
    runs: list[lake.LakeOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("avsc").write_text(AVRO)
    Path("set").write_bytes(FileDescriptorSet(file=[PROTO]).SerializeToString())
    result = ternmq(*LAKE, *words.split())
    assert (result.exit_code, runs) == (2, [])
    assert said in result.stderr


def test_avro_without_its_package_says_what_to_install(
    runs: list[lake.LakeOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    avsc = tmp_path / "order.avsc"
    avsc.write_text(AVRO)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fastavro" else object())
    result = ternmq(*LAKE, "--avro-schema", str(avsc))
    assert (result.exit_code, runs) == (2, [])
    assert result.stderr == "ternmq: fastavro is not installed: in a checkout of TernMQ, run pip install '.[avro]'\n"


def test_keys_come_from_the_environment_and_appear_nowhere(runs: list[lake.LakeOptions]) -> None:
    keys = {"TERNMQ_ACCESS_KEY": "who", "TERNMQ_SECRET_KEY": "hush", "TERNMQ_SESSION_TOKEN": "token"}
    result = ternmq(*LAKE, **keys)
    (options,) = runs
    told = options.connection.options()
    assert (told["accessKey"], told["secretKey"], told["sessionToken"]) == ("who", "hush", "token")
    assert not any(key in repr(options) + result.output for key in keys.values())


def test_keys_come_from_a_file_if_there_is_one(runs: list[lake.LakeOptions], tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text('# ours\n\naccess_key = "who"\nsecret_key = "hu=sh"\n')
    ternmq(*LAKE, "--credentials-file", str(file), TERNMQ_ACCESS_KEY="another")
    told = runs[0].connection.options()
    assert (told["accessKey"], told["secretKey"], "sessionToken" in told) == ("who", "hu=sh", False)


@pytest.mark.usefixtures("runs")
def test_what_is_wrong_in_a_file_of_keys_is_told_without_the_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text('access_key = "who"\nhush\n')
    result = ternmq(*LAKE, "--credentials-file", str(file))
    assert (result.exit_code, "hush" in result.output) == (2, False)
    assert "is no TOML" in result.stderr
    missing = ternmq(*LAKE, "--credentials-file", str(tmp_path / "none"))
    assert missing.exit_code == 2


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--trigger", "3s"), "--trigger goes with --continuous"),
        (("--topics", "a,,b"), "none may be empty"),
        (("--source-option", "subscribe=x"), "subscribe has a parameter of its own"),
        (("--target-bytes", "many"), "a size like 64MiB"),
        (("--target-bytes", "0"), "at least 1 byte"),
        (("--conf", "x"), "NAME=VALUE is needed"),
    ],
)
def test_wrong_words_are_told(words: tuple[str, ...], said: str) -> None:
    result = ternmq(*LAKE, *words)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.usefixtures("runs")
def test_the_report_as_json() -> None:
    assert json.loads(ternmq(*LAKE, "--json").stdout)["rows"] == 1200


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_without_a_package_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else object())
    result = ternmq(*LAKE)
    assert result.exit_code == 2
    assert result.stderr == f"ternmq: {package} is not installed: in a checkout of TernMQ, run pip install '.[spark]'\n"


@pytest.mark.usefixtures("sessions")
def test_what_breaks_in_the_lake_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, line: object) -> None:
        del line
        raise lake.LakeBroken("data/x was committed")

    monkeypatch.setattr(lake, "run", run)
    result = ternmq(*LAKE)
    assert (result.exit_code, result.stderr) == (1, "ternmq: data/x was committed\n")


@pytest.mark.usefixtures("sessions")
def test_a_server_that_is_away_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, line: object) -> None:
        del line
        raise TransportError("h:1", "refused")

    monkeypatch.setattr(lake, "run", run)
    result = ternmq(*LAKE)
    assert result.exit_code == ServerUnreachable.exit_code
    assert result.stderr.startswith("ternmq: can't reach a broker at h:1 (refused)")


@pytest.mark.usefixtures("sessions")
def test_compact_says_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    def compact(
        spark: None,
        out: str,
        options: lake.CompactionOptions,
        *,
        on_group: Callable[[lake.CompactionReport], None],
    ) -> lake.CompactionReport:
        del spark
        assert (out, options.min_files) == ("folder", 3)
        on_group(report)
        return report

    monkeypatch.setattr(lake, "compact", compact)
    report = lake.CompactionReport(partitions=2, removed=9, added=2, bytes=12345)
    command = ("pipeline", "compact", "--out", "folder", "--min-files", "3")
    assert ternmq(*command).stdout == "merged 9 files of 2 partitions into 2, 12,345 bytes\n"
    assert json.loads(ternmq(*command, "--json").stdout) == {"partitions": 2, "removed": 9, "added": 2, "bytes": 12345}
    report = lake.CompactionReport()
    assert ternmq(*command).stdout == "nothing to compact\n"


@pytest.mark.usefixtures("sessions")
def test_a_second_compaction_is_a_failure_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def compact(*_: object, **__: object) -> None:
        raise lake.Locked("process 1 compacts this lake")

    monkeypatch.setattr(lake, "compact", compact)
    result = ternmq("pipeline", "compact", "--out", "folder")
    assert (result.exit_code, result.stderr) == (1, "ternmq: process 1 compacts this lake\n")


def test_help_needs_no_spark() -> None:
    assert "ternmq pipeline lake --topics" in ternmq("pipeline", "lake", "--help").stdout
    assert "compact" in ternmq("pipeline", "--help").stdout
    assert ternmq("pipeline", "nonsense").exit_code == 2
