"""The table that `./run test coverage` ends with."""

from typing import Any

from tools.measure_coverage import table


def file(statements: int, executed: int, branches: int, taken: int) -> dict[str, Any]:
    return {
        "summary": {
            "num_statements": statements,
            "covered_lines": executed,
            "num_branches": branches,
            "covered_branches": taken,
        }
    }


def test_each_package_has_a_line_that_adds_up_its_files_and_the_last_one_is_for_all() -> None:
    report = {
        "files": {
            "broker/ternmq_broker/store/log/commit_log.py": file(1000, 900, 10, 5),
            "broker/ternmq_broker/store/message_store.py": file(1000, 800, 10, 10),
            "broker/ternmq_broker/broker.py": file(100, 50, 0, 0),
            "clients/python/ternmq/pull/pull_queue.py": file(10, 10, 4, 1),
        }
    }
    lines = [line.split() for line in table(report).splitlines()[1:]]
    assert lines == [
        ["ternmq.pull", "100.0", "%", "25.0", "%", "10"],
        ["ternmq_broker", "50.0", "%", "100.0", "%", "100"],
        ["ternmq_broker.store", "85.0", "%", "75.0", "%", "2,000"],
        ["all", "83.4", "%", "66.7", "%", "2,110"],
    ]
