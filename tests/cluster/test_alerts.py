"""Each alert fires for what it is about and not for what looks like it, by Prometheus's own tool (alerts_test.yml)."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.prometheus import promtool

pytestmark = pytest.mark.cluster

ALERTS = Path(__file__).parents[2] / "deploy/observability/alerts.yml"
TESTS = Path(__file__).parent / "alerts_test.yml"


def names() -> list[str]:
    return [rule["alert"] for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]]


def expected(alert: str) -> list[tuple[int, int]]:
    """Of each moment of a test that looks at the alert: how many of it there are, and how many series there are."""
    tests: list[dict[str, Any]] = yaml.safe_load(TESTS.read_text())["tests"]
    return [
        (len(each["exp_alerts"]), len(test["input_series"]))
        for test in tests
        for each in test["alert_rule_test"]
        if each["alertname"] == alert
    ]


def test_prometheus_takes_the_rules() -> None:
    done = promtool("check", "rules", str(ALERTS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(names())} rules found" in done.stdout


def test_each_alert_fires_and_does_not_fire_as_its_test_says() -> None:
    done = promtool("test", "rules", str(TESTS))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", names())
def test_an_alert_is_tested_with_what_it_fires_for_and_with_what_it_does_not(alert: str) -> None:
    looks = expected(alert)
    assert any(firing for firing, _ in looks)
    assert all(firing < series for firing, series in looks)


@pytest.mark.parametrize(("right", "wrong"), [("_serving) == 0", "_serving) == 1"), ("for: 30s", "for: 30m")])
def test_an_alert_that_is_changed_fails_its_test(tmp_path: Path, right: str, wrong: str) -> None:
    text = ALERTS.read_text()
    assert right in text
    changed = tmp_path / "alerts.yml"
    changed.write_text(text.replace(right, wrong))
    tests = tmp_path / "alerts_test.yml"
    tests.write_text(TESTS.read_text().replace("../../deploy/observability/alerts.yml", str(changed)))
    assert promtool("test", "rules", str(tests)).returncode == 1
