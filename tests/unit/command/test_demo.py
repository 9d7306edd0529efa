"""The demo's counting: what it would say must be true whatever comes, twice or not at all."""

import csv
import io
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_command.demo.batch_reports import BatchReport, FlightDelivery
from ternmq_command.demo.flights import build_message, read_rows
from ternmq_command.demo.ledger import BrokerKill, Ledger, UncleanLedger
from ternmq_command.demo.report import format_report, format_verdict

ROWS = 20
HEADER = ["year", "dep_delay", "carrier", "flight", "tailnum", "origin", "dest", "time_hour"]


def flight(row: int, delay_minutes: int | None = 4) -> FlightDelivery:
    return FlightDelivery(row, 1.5, "EWR", "IAH", "UA", delay_minutes)


def filled(sent: list[int], received: list[int]) -> Ledger:
    ledger = Ledger.create_empty(ROWS)
    ledger.add_sent(sent)
    ledger.add_report(1, BatchReport([flight(row) for row in received], acked=True))
    return ledger


def test_a_row_becomes_a_message_without_its_missing_columns(tmp_path: Path) -> None:
    text = io.StringIO()
    csv.writer(text).writerows(
        [HEADER, ["2013", "NA", "UA", "1545", "N14228", "EWR", "IAH", "2013-01-01T10:00:00Z"], ["x"] * len(HEADER)]
    )
    with zipfile.ZipFile(tmp_path / "flights.zip", "w") as archive:
        archive.writestr("flights.csv", text.getvalue())
    [(number, row)] = read_rows(tmp_path / "flights.zip", 1)
    message = build_message(number, row)
    assert (message.tag, message.keys, message.properties["row"]) == ("EWR", ("UA1545",), "0")
    assert json.loads(message.body) == {
        "year": 2013, "carrier": "UA", "flight": 1545, "tailnum": "N14228", "origin": "EWR", "dest": "IAH",
        "time_hour": "2013-01-01T10:00:00Z",
    }  # fmt: skip
    assert "dep_delay" not in message.properties


def test_a_report_survives_the_pipe() -> None:
    sent = BatchReport([flight(3), flight(4, None)], acked=False)
    line = sent.encode_line()
    assert line.count(b"\n") == 1
    assert BatchReport.decode_line(line) == sent


@given(st.lists(st.integers(0, ROWS - 1)), st.lists(st.integers(0, ROWS - 1)))
def test_counts_are_those_of_the_rows(sent: list[int], received: list[int]) -> None:
    ledger = filled(sent, received)
    assert ledger.sent_count == len(set(sent))
    assert ledger.consumed_count == len(set(received)) == ledger.tally.origins["EWR"]
    assert ledger.duplicates == len(received) - len(set(received))
    assert set(ledger.missing_rows(ROWS)) == set(range(ROWS)) - set(received)


@given(st.lists(st.integers(0, ROWS - 1)), st.lists(st.integers(0, ROWS - 1)))
def test_a_saved_ledger_reads_back(
    tmp_path_factory: pytest.TempPathFactory, sent: list[int], received: list[int]
) -> None:
    file = tmp_path_factory.mktemp("ledger") / "progress.json"
    ledger = filled(sent, received)
    ledger.kills.append(BrokerKill(7, 0.5))
    ledger.save_to(file, clean=True)
    again = Ledger.load_from(file)
    assert (again.sent, again.consumed) == (ledger.sent, ledger.consumed)
    assert (again.sent_count, again.consumed_count, again.duplicates) == (
        ledger.sent_count, ledger.consumed_count, ledger.duplicates,
    )  # fmt: skip
    assert again.tally.as_json() == ledger.tally.as_json()
    assert again.kills == ledger.kills


def test_the_ledger_of_a_demo_that_was_killed_is_refused(tmp_path: Path) -> None:
    Ledger.create_empty(ROWS).save_to(tmp_path / "progress.json", clean=False)
    with pytest.raises(UncleanLedger):
        Ledger.load_from(tmp_path / "progress.json")


def test_the_verdict_tells_lost_from_never_sent_and_counts_repeats() -> None:
    everything = list(range(ROWS))
    assert (
        format_verdict(filled(everything, everything), ROWS)
        == "20 of 20 flights were consumed, none lost; none came twice"
    )
    assert "3 deliveries were repeated" in format_verdict(filled(everything, [*everything, 1, 1, 2]), ROWS)
    assert "1 that the broker acknowledged are LOST, the first is row 5" in format_verdict(
        filled(everything, [row for row in everything if row != 5]), ROWS
    )
    assert "1 were not acknowledged by the broker" in format_verdict(filled(everything[:-1], everything[:-1]), ROWS)


def test_the_report_has_figures_and_content() -> None:
    text = format_report(filled([0, 1], [0, 1, 1]), 2)
    for word in ("p99", "consumer 1: 3", "EWR", "busiest carriers  UA 2", "EWR-IAH 2"):
        assert word in text


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_percentiles_are_of_the_values_and_grow(latencies: list[float]) -> None:
    ledger = Ledger.create_empty(1)
    ledger.latencies_ms.extend(latencies)
    found = [ledger.percentile_ms(percent) for percent in (0, 50, 99, 100)]
    assert found == sorted(found)
    assert set(found) <= set(latencies)
    assert found[-1] == max(latencies)
