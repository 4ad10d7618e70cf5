"""The table of a bench run: ratios to every peer, what is wanted of them, and what was left out."""

from __future__ import annotations

from typing import Any

import pytest
import report
from figures import ECHO, GATEWAY, OURS, SENDER, Figure, Measure, Target
from measures import SMOKE, STANDARD, all_measures, compare_workers


def measured(figure: Figure, **medians: float) -> report.Row:
    """The row of one figure, given what each server measured."""
    measure = Measure("m", (), (figure,))
    names = {"ours": OURS, "gateway": GATEWAY, "echo": ECHO, "sender": SENDER, "rig": report.RIG}
    servers = [names[name] for name in medians if name != "rig"]
    results = report.Results(servers, [measure])
    for name, value in medians.items():
        results.add(names[name], measure, {"x": value})
    (row,) = report.rows(results)
    return row


def figure(**fields: Any) -> Figure:
    return Figure("m.x", "x", "x", "µs", **fields)


def test_every_peer_has_a_ratio_of_its_own() -> None:
    assert measured(figure(), ours=6, gateway=12, echo=4, sender=1).ratios == {GATEWAY: 0.5, ECHO: 1.5, SENDER: 6}


def test_of_latency_what_each_adds_to_the_rig_is_compared() -> None:
    assert measured(figure(less_rig=True), ours=3, gateway=5, rig=1).ratios == {GATEWAY: 0.5}


def test_latency_without_the_rig_has_no_ratio() -> None:
    assert measured(figure(less_rig=True), ours=3, gateway=5).ratios == {}


@pytest.mark.parametrize(("ours", "grade"), [(9, "missed"), (8, "first met"), (5, "met")])
def test_a_ratio_is_judged_against_the_peer_that_is_named(ours: float, grade: str) -> None:
    judged = figure(target=Target(0.8, 0.5, GATEWAY))
    assert measured(judged, ours=ours, gateway=10, echo=1).grade() == grade


@pytest.mark.parametrize(("ours", "grade"), [(7, "missed"), (8, "first met"), (12, "met")])
def test_a_rate_is_to_be_as_high_as_wanted(ours: float, grade: str) -> None:
    judged = figure(target=Target(0.8, 1.2, GATEWAY, at_least=True))
    assert measured(judged, ours=ours, gateway=10).grade() == grade


def test_a_figure_can_be_judged_without_a_peer() -> None:
    assert measured(figure(target=Target(2)), ours=3).grade() == "missed"


def test_nothing_is_wanted_in_comparison_with_a_peer_that_was_not_measured() -> None:
    judged = figure(target=Target(0.8, 0.5, GATEWAY))
    measure = Measure("m", (), (judged,))
    results = report.Results([OURS, ECHO], [measure])
    results.add(OURS, measure, {"x": 3})
    results.add(ECHO, measure, {"x": 1})
    assert "agentic-server" not in report.markdown(results, {})


def test_the_page_says_what_was_reached_and_what_was_left_out() -> None:
    measure = Measure("m", (), (figure(target=Target(0.8, 0.5, GATEWAY)),))
    results = report.Results([OURS, GATEWAY], [measure])
    for value in (5, 7, 6):
        results.add(OURS, measure, {"x": value})
    results.add(GATEWAY, measure, {"x": 10})
    results.skip(SENDER, "there is no C compiler")
    page = report.markdown(results, {"repeats": 3})
    assert "| x | µs | 6.0 (5.0–7.0) | 10.0 | 0.60 | ≤ 0.8 × agentic-server, then 0.5: first met |" in page
    assert "- left out: c-sender: there is no C compiler" in page
    assert "- repeats: 3" in page


def test_every_reach_of_the_issue_is_a_target() -> None:
    wanted = {f.key: str(f.target) for m in all_measures(STANDARD) for f in m.figures if f.target}
    for sockets in ("1", "10", "100"):
        assert wanted[f"throughput_{sockets}.cpu"] == "≤ 0.8 × agentic-server, then 0.5"
    assert wanted["throughput_10_stored.cpu"] == "≤ 0.8 × agentic-server, then 0.6"
    assert wanted["turns_1_unstored.rate"] == wanted["turns_10_stored.rate"] == "≥ 0.8 × agentic-server, then 1.2"
    assert wanted["paced.p50"] == wanted["paced.p99"] == "≤ 1 × agentic-server, then 0.7"
    assert wanted["idle.socket"] == "≤ 0.3 × agentic-server, then 0.2"
    assert wanted["viewers.cpu"] == "≤ 2 × c-sender, then 1.3"
    assert wanted["conversation.net_growth"] == "≤ 1.3, then 1.1"


def test_peers_that_only_send_take_part_where_nothing_else_is_asked() -> None:
    taking = [measure.key for measure in all_measures(SMOKE) if measure.takes("prepared")]
    assert taking == [
        *("throughput_1", "throughput_10", "throughput_100"),
        *("turns_1_unstored", "turns_10_unstored", "viewers"),
    ]


def test_two_workers_are_compared_by_cost_and_by_how_sockets_split() -> None:
    one = {"cpu_us_per_event": 10.0, "server_sockets": [200]}
    two = {"cpu_us_per_event": 11.0, "server_sockets": [90, 110]}
    assert compare_workers(one, two) == {"two_to_one": 1.1, "fuller_percent": 55}
