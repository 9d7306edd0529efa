"""The page of Spark says what there is, no more and no less."""

import re
from pathlib import Path

import pytest

from pyspark_ternmq.options import CONNECTION_OPTIONS
from pyspark_ternmq.schema import SCHEMA
from pyspark_ternmq.sink.options import SINK_OPTIONS
from pyspark_ternmq.source.options import BATCH_OPTIONS, STREAM_OPTIONS
from ternmq_command.pipeline.commands import PIPELINES
from ternmq_command.pipeline.decoding_options import OPTIONS

PAGE = (Path(__file__).parents[3] / "docs/spark.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The rows of the table under a heading, without its own heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def names(heading: str) -> list[str]:
    return [cells[0].strip("`") for cells in rows(heading)]


def test_all_columns_with_their_types() -> None:
    assert [(name.strip("`"), kind) for name, kind, _ in rows("Columns")] == [
        (field.name, field.dataType.simpleString()) for field in SCHEMA
    ]


@pytest.mark.parametrize(
    ("heading", "options"),
    [
        ("Reading", {*BATCH_OPTIONS, *STREAM_OPTIONS, "endpoint"}),
        ("Writing", {*SINK_OPTIONS, "endpoint"}),
        ("TLS, credentials, timeouts", {*CONNECTION_OPTIONS} - {"endpoint"}),
    ],
)
def test_all_options(heading: str, options: set[str]) -> None:
    found = names(heading)
    assert len(found) == len(set(found))
    assert set(found) == options


def test_all_pipelines() -> None:
    assert {name.removeprefix("ternmq pipeline ") for name in names("Pipelines")} == set(PIPELINES)


def test_all_options_of_bodies() -> None:
    section = PAGE.split("\n### Avro and Protobuf\n")[1].split("\n### ")[0]
    documented = re.findall(r"^\| `(--[a-z-]+)` \|", section, re.MULTILINE)
    assert documented == [f"--{name.replace('_', '-')}" for name in OPTIONS]
