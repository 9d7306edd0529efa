"""How far behind a stream is, by what Spark reports."""

import json
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyspark_ternmq.lag import Lag, LagListener, lag_by_topic, lag_of


@pytest.mark.parametrize(
    ("end", "latest", "lag"),
    [
        ({"orders": {"b/0": 3, "b/1": 5}}, {"orders": {"b/0": 10, "b/1": 5, "b/2": 4}}, 11),
        ('{"orders": {"b/0": 3}}', '{"orders": {"b/0": 10}}', 7),
        ({"orders": {"b/0": 9}}, {"orders": {"b/0": 2}}, 0),  # made anew
        ({"orders": {"b/0": 9}, "gone": {"b/0": 1}}, {"orders": {"b/0": 9}, "new": {"b/0": 2}}, 2),
        ({"orders": {"b/0": 3}, "@identities": {"orders": "a-1"}}, {"orders": {"b/0": 4}}, 1),
    ],
)
def test_the_lag_is_what_the_last_batch_left(end: object, latest: object, lag: int | None) -> None:
    assert lag_of({"endOffset": end, "latestOffset": latest}) == lag


@pytest.mark.parametrize(
    ("end", "latest"),
    [
        ({"orders": {"b/0": 9}}, None),
        (None, {"orders": {"b/0": 9}}),
        ("{}", "{}"),
        ('{"orders": {"0": 9}}', '{"orders": {"0": 10}}'),  # Kafka's partitions
        ('{"logOffset": 3}', '{"logOffset": 4}'),  # files
        ("3", "4"),  # a rate
        ("not JSON", "{"),
    ],
)
def test_what_is_no_source_of_ours_has_none(end: object, latest: object) -> None:
    assert lag_of({"endOffset": end, "latestOffset": latest}) is None


def source(**of_topics: int) -> SimpleNamespace:
    end = {topic: {"b/0": 1} for topic in of_topics}
    latest = {topic: {"b/0": 1 + lag} for topic, lag in of_topics.items()}
    return SimpleNamespace(endOffset=json.dumps(end), latestOffset=json.dumps(latest))


def test_sources_of_one_query_are_added_up() -> None:
    kafka = SimpleNamespace(endOffset='{"orders": {"0": 9}}', latestOffset='{"orders": {"0": 10}}')
    assert lag_by_topic([source(orders=2, payments=0), kafka, source(orders=5)]) == {"orders": 7, "payments": 0}


def event(name: str | None, *sources: object) -> Any:  # noqa: ANN401
    return SimpleNamespace(progress=SimpleNamespace(name=name, id="the-id", batchId=3, sources=sources))


def test_a_listener_tells_of_each_micro_batch(caplog: pytest.LogCaptureFixture) -> None:
    told = list[Lag]()
    listener = LagListener(told.append)
    listener.onQueryProgress(event("reports", source(orders=1200, payments=5)))
    listener.onQueryProgress(event("files"))
    listener.onQueryProgress(event(None, source(orders=0)))
    assert [(lag.query, lag.batch, lag.total) for lag in told] == [("reports", 3, 1205), ("the-id", 3, 0)]
    assert str(told[0]) == "reports, batch 3: lag 1,205 (orders 1,200, payments 5)"
    with caplog.at_level(logging.INFO):
        LagListener().onQueryProgress(cast("Any", event("reports", source(orders=7))))
    assert caplog.messages == ["reports, batch 3: lag 7 (orders 7)"]
