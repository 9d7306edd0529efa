"""What `./run bench` makes of its runs: pairs of the same round, their median and range, and whether a target holds."""

import json
from collections.abc import Mapping

import pytest

from benchmarks.bench.field import Field, is_steady
from benchmarks.bench.servers import APACHE, NATS, TERNMQ, Server, Setup
from benchmarks.bench.tables import Result, as_json, markdown, pairs, rows, shown, text
from benchmarks.bench.works import Bar, Case

OURS, SYNC, PEER, OTHER = Setup(TERNMQ), Setup(TERNMQ, flush="sync"), Setup(APACHE), Setup(NATS)
TWO_WORKERS = Setup(TERNMQ, workers=2, cores=2)
GUARDED = Setup(TERNMQ, tls=True, access_control=True)
COST = "CPU us/message"


def unused(field: Field, server: Server) -> Mapping[str, float]:
    raise AssertionError("nothing is measured here")


def case(*setups: Setup, bars: tuple[Bar, ...] = ()) -> Case:
    return Case(work="unary", name="256 B", setups=setups, measure=unused, bars=bars)


def results(of: Case, figures: Mapping[Setup, tuple[float, ...]]) -> list[Result]:
    return [
        Result(of, setup, number, {COST: value})
        for setup, values in figures.items()
        for number, value in enumerate(values)
    ]


def test_a_ratio_is_of_two_runs_of_the_same_round() -> None:
    [row] = rows(results(case(OURS, PEER), {OURS: (10, 30, 20), PEER: (10, 10, 40)}))
    assert list(row.ratios) == [1, 3, 0.5]
    assert row.ratio == 1
    assert (row.own, row.others) == (20, 10)


def test_a_round_in_which_one_of_both_failed_makes_no_ratio() -> None:
    whole = results(case(OURS, PEER), {OURS: (10, 30), PEER: (10, 10)})
    [row] = rows(whole[:-1])
    assert list(row.ratios) == [1]


def test_each_of_ours_is_paired_with_each_peer() -> None:
    assert pairs([OURS, SYNC, PEER, OTHER]) == [(OURS, PEER), (OURS, OTHER), (SYNC, PEER), (SYNC, OTHER)]


def test_when_all_are_ours_the_first_is_paired_with_the_others() -> None:
    assert pairs([TWO_WORKERS, OURS]) == [(TWO_WORKERS, OURS)]


@pytest.mark.parametrize(("guarded", "holds"), [(11.0, True), (11.5, False)])
def test_a_bar_may_be_held_against_our_own_server_without_guards(guarded: float, holds: bool) -> None:
    barred = case(GUARDED, OURS, bars=(Bar(figure=COST, limit=1.1, peer=TERNMQ, setup=GUARDED),))
    [row] = rows(results(barred, {GUARDED: (guarded,), OURS: (10.0,)}))
    assert (str(row.setup), str(row.peer), row.holds) == ("TernMQ TLS access control", "TernMQ", holds)


@pytest.mark.parametrize(("ours", "holds"), [(4.0, True), (4.5, True), (4.6, False)])
def test_a_bar_is_held_against_the_median_ratio_to_its_peer_only(ours: float, holds: bool) -> None:
    barred = case(OURS, SYNC, PEER, OTHER, bars=(Bar(figure=COST, limit=0.45),))
    found = rows(results(barred, {OURS: (ours,), SYNC: (1,), PEER: (10,), OTHER: (1,)}))
    assert {(str(row.setup), str(row.peer)): row.holds for row in found} == {
        ("TernMQ", APACHE): holds,
        ("TernMQ", NATS): None,
        ("TernMQ sync", APACHE): None,
        ("TernMQ sync", NATS): None,
    }


def test_a_bar_may_ask_for_more() -> None:
    barred = case(OURS, PEER, bars=(Bar(figure=COST, limit=2, at_least=True),))
    [row] = rows(results(barred, {OURS: (21,), PEER: (10,)}))
    assert row.holds
    assert str(row.bar) == ">= 2"


def test_a_bar_without_a_peer_is_held_against_the_figure_itself() -> None:
    barred = case(OURS, PEER, bars=(Bar(figure=COST, limit=150, peer=None),))
    compared, alone = rows(results(barred, {OURS: (100, 151, 160), PEER: (200, 200, 200)}))
    assert compared.bar is None
    assert (alone.own, alone.peer, alone.holds) == (151, None, False)


def test_without_a_peer_the_figures_stand_alone() -> None:
    [row] = rows(results(case(OURS, PEER, bars=(Bar(figure=COST, limit=0.45),)), {OURS: (10, 12, 11)}))
    assert (row.own, row.ratio, row.holds) == (11, None, None)


def test_a_peer_that_needs_nothing_makes_no_ratio() -> None:
    [row] = rows(results(case(OURS, PEER), {OURS: (1,), PEER: (0,)}))
    assert row.ratio is None
    assert len(text([row]).splitlines()) == 2


def test_the_table_has_a_line_for_each_pair_with_the_spread_and_the_bar() -> None:
    barred = case(OURS, PEER, bars=(Bar(figure=COST, limit=0.45),))
    head, line = text(rows(results(barred, {OURS: (50, 80), PEER: (100, 100)}))).splitlines()
    assert head.split()[:4] == ["work", "figure", "server", "peer"]
    assert line.split()[-5:] == ["0.65", "0.5..0.8", "<=", "0.45", "no"]


def test_the_table_for_a_page_has_as_many_cells_in_each_line() -> None:
    lines = markdown(rows(results(case(OURS, PEER, OTHER), {OURS: (1,), PEER: (2,), OTHER: (4,)}))).splitlines()
    assert {line.count("|") for line in lines} == {11}
    assert len(lines) == 4


def test_the_json_has_all_runs_and_all_ratios() -> None:
    found = json.loads(json.dumps(as_json(results(case(OURS, PEER), {OURS: (10, 30), PEER: (10, 10)}))))
    assert [(run["server"], run["round"], run[COST]) for run in found["runs"]] == [
        ("TernMQ", 0, 10),
        ("TernMQ", 1, 30),
        (APACHE, 0, 10),
        (APACHE, 1, 10),
    ]
    assert [(row["ratio"], row["ratios"]) for row in found["ratios"]] == [(2, [1, 3])]


@pytest.mark.parametrize(
    ("value", "expected"), [(0.2345, "0.234"), (12.34, "12.3"), (21703.2, "21,703"), (0.0, "0"), (None, "")]
)
def test_figures_are_shown_with_three_digits(value: float | None, expected: str) -> None:
    assert shown(value) == expected


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        ((9, 5, 4.9, 4.8, 4.9), True),
        ((9, 5, 4.9, 4.0, 4.1), False),
        ((9, 5, 4.0, 4.1, 4.1), False),
        ((9, 5, 6, 6, 6), True),
    ],
)
def test_a_server_is_warm_when_three_parts_brought_nothing(costs: tuple[float, ...], expected: bool) -> None:
    assert is_steady(costs) == expected
