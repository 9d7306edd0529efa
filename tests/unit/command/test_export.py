"""`ternmq export` writes what `ternmq apply` reads."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ternmq_common.catalog.lite_group import LITE_QUOTA_MAX
from ternmq_common.limits import ATTEMPTS_MAX, QUEUES_MAX
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call

NAMES = st.text("abcdefxyzNOon0159_-", min_size=1, max_size=12)
DURATIONS = st.sampled_from(["1s", "1500ms", "30s", "90s", "10m", "2h"])
BACKOFFS = st.one_of(
    st.sampled_from(["customized", "exponential", "exponential:1s,10m,2"]),
    st.lists(DURATIONS, min_size=1, max_size=5).map(lambda steps: f"customized:{','.join(steps)}"),
)
MOMENTS = st.integers(0, 7_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC).isoformat())
ASSIGNMENTS = st.sampled_from(
    [
        "averagely",
        "AVG_BY_CIRCLE",
        "consistent-hash",
        "machine-room:r2,r1",
        "by-config:c2=1;c1=0,b/3",
        "MACHINE_ROOM_NEARBY-AVG",
    ]
)


def optional(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=values)


def named(settings: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Items with names, each once."""
    items = st.builds(lambda name, rest: {"name": name, **rest}, NAMES, settings)
    return st.lists(items, max_size=5, unique_by=lambda item: item["name"])


TOPICS = named(
    optional(
        type=st.sampled_from(["normal", "fifo", "delay", "transaction", "priority", "lite", "mixed"]),
        queues=st.integers(1, QUEUES_MAX),
        permission=st.sampled_from(["read-write", "read", "write", "none"]),
        replication=st.sampled_from(["sync", "async", "shard"]),
        flush=st.sampled_from(["sync", "async", "broker"]),
        retention=DURATIONS | st.just("broker"),
    )
    | st.fixed_dictionaries(
        {"type": st.just("lite")}, optional={"lite_ttl": st.sampled_from(["none", "15m", "1d", 7200])}
    )
)
LITE = st.fixed_dictionaries(
    {"lite_bind": st.just("A-LITE-ONE")},
    optional={
        "lite_model": st.sampled_from(["shared", "exclusive"]),
        "lite_quota": st.integers(1, LITE_QUOTA_MAX),
        "lite_wildcard": st.booleans(),
        "lite_reset": st.sampled_from(["taken", "unsubscribed", "unsubscribed,taken", "none"]),
    },
)
GROUPS = named(
    optional(
        fifo=st.booleans(),
        max_attempts=st.integers(1, ATTEMPTS_MAX),
        retry_backoff=BACKOFFS,
        consume_from=st.sampled_from(["auto", "earliest", "latest"]) | MOMENTS,
        assignment=ASSIGNMENTS,
        queue_lock_hold=DURATIONS | st.just("0s"),
        priority_factor=st.integers(0, 100),
        remoting_pop=st.booleans(),
    ).flatmap(lambda settings: st.just(settings) | LITE.map(lambda lite: {**settings, **lite}))
)


@pytest.mark.slow
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(topics=TOPICS, groups=GROUPS)
def test_what_is_exported_is_what_is_there(
    call_server: Call, server: AdminServer, topics: list[dict[str, Any]], groups: list[dict[str, Any]]
) -> None:
    """Here there is nothing to do for it, and an empty server gets the same by it."""
    server.topics.clear()
    server.groups.clear()
    topics = [*topics, {"name": "A-LITE-ONE", "type": "lite"}]
    declared = yaml.safe_dump({"topics": topics, "groups": groups})
    applied = call_server("apply", "-f", "-", stdin=declared)
    assert applied.exit_code == 0, applied.stderr
    for flags in ((), ("--json",)):
        exported = call_server("export", *flags).stdout
        assert call_server("apply", "-f", "-", "--dry-run", stdin=exported).stdout == "nothing to do\n"
    assert call_server("apply", "-f", "-", "--dry-run", stdin=declared).stdout == "nothing to do\n"
    server.topics.clear()
    server.groups.clear()
    call_server("apply", "-f", "-", stdin=exported)
    assert json.loads(call_server("export", "--json").stdout) == json.loads(exported)


def test_an_export_is_read_easily(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "orders", "--type", "fifo", "--queues", "4")
    call_server("group", "create", "on", "--max-attempts", "5", "--consume-from", "2026-08-01T12:00:00Z")
    exported = call_server("export")
    assert exported.stdout.splitlines() == [
        f"# Exported from {server.endpoint}, for `ternmq apply -f FILE`.",
        "topics:",
        "- {name: orders, type: fifo, queues: 4, permission: read-write}",
        "groups:",
        "- {name: 'on', fifo: false, max_attempts: 5, retry_backoff: customized, "
        "consume_from: '2026-08-01T12:00:00.000Z', assignment: averagely, queue_lock_hold: 0s, priority_factor: 99, "
        "remoting_pop: false}",
    ]
    assert json.loads(call_server("export", "--json").stdout)["topics"] == [
        {"name": "orders", "type": "fifo", "queues": 4, "permission": "read-write"}
    ]


def test_a_topic_that_is_replicated_as_its_shards_are_says_nothing_of_it(call_server: Call) -> None:
    for replication in ("async", "shard"):
        call_server("topic", "create", f"by-{replication}", "--replication", replication)
    async_one, shard_one = json.loads(call_server("export", "--json").stdout)["topics"]
    assert async_one["replication"] == "async"
    assert "replication" not in shard_one


def test_a_server_without_anything_is_exported_too(call_server: Call) -> None:
    exported = call_server("export").stdout
    assert yaml.safe_load(exported) == {"topics": [], "groups": []}
    assert call_server("apply", "-f", "-", "--dry-run", stdin=exported).stdout == "nothing to do\n"
