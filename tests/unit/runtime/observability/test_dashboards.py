"""The dashboard and the alerts ask for metrics that there are, with labels that they have."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ternmq_runtime.observability import instruments as its
from tests.support.series_names import series_names

DEPLOY = Path(__file__).parents[4] / "deploy/observability"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana/dashboards/ternmq.json").read_text())
RULES: list[dict[str, Any]] = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
NAMES = frozenset(name for instrument in its.INSTRUMENTS for name in series_names(instrument)) | {"up"}
OURS = (
    its.TOPIC,
    its.GROUP,
    its.METHOD,
    its.CODE,
    its.BROKER,
    its.REPLICA,
    its.ROLE,
    its.LIMIT,
    its.CERTIFICATE,
    "error.type",
)
# What Prometheus and, for `namespace`, its operator add.
ADDED = {"instance", "job", "le", "namespace"}
LABELS = frozenset(label.replace(".", "_") for label in OURS) | ADDED
# What PromQL has of its own; everything else in an expression is the name of a metric or a label.
WORDS = frozenset(
    {
        "abs",
        "sum",
        "min",
        "max",
        "by",
        "rate",
        "increase",
        "deriv",
        "topk",
        "histogram_quantile",
        "min_over_time",
        "and",
        "or",
    }
)
VARIABLE = re.compile(r"\$\w+|\[[^]]*\]")
WORD = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
QUOTED = re.compile(r'"[^"]*"')


def panels() -> Iterator[dict[str, Any]]:
    yield from (panel for panel in DASHBOARD["panels"] if panel["type"] != "row")


def expressions() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]] + [rule["expr"] for rule in RULES]


def words(expression: str) -> set[str]:
    """The names in an expression, without what is in quotes, in brackets or a variable."""
    return set(WORD.findall(VARIABLE.sub("", QUOTED.sub("", expression)))) - WORDS


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_names_metrics_and_labels_that_there_are(expression: str) -> None:
    named = words(expression)
    assert named & NAMES, "it asks for nothing of ours"
    assert named <= NAMES | LABELS


@pytest.mark.parametrize("expression", expressions())
def test_the_brackets_of_an_expression_match(expression: str) -> None:
    bare = QUOTED.sub("", expression)
    assert all(bare.count(left) == bare.count(right) for left, right in ("()", "{}", "[]"))


def test_a_legend_names_labels_that_there_are() -> None:
    legends = " ".join(target["legendFormat"] for panel in panels() for target in panel["targets"])
    assert set(re.findall(r"{{\s*(\w+)\s*}}", legends)) <= LABELS


def test_every_panel_has_a_place_of_its_own() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_dashboard_shows_every_metric() -> None:
    shown = set().union(*(words(target["expr"]) for panel in panels() for target in panel["targets"]))
    left_out = {its.UPTIME, its.ACCEPTS, its.DISK_REFUSES, its.REGISTRY_VERSION, its.LINK_FRAMES_IN}
    for instrument in set(its.INSTRUMENTS) - left_out:
        assert shown & series_names(instrument), instrument.name


def test_an_alert_says_what_is_wrong_and_what_to_do() -> None:
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"].endswith(".")


def test_instruments_have_names_of_their_own() -> None:
    names = [name for instrument in its.INSTRUMENTS for name in series_names(instrument)]
    assert len(names) == len(set(names))
