"""The one picture of all nodes: sums, the worst breaker, percentiles of all."""

from __future__ import annotations

from dataclasses import asdict, replace

import orjson
import pytest

from antiphon.core.node_status import NodeReport, UpstreamReport, merge_upstreams, silent_row, totals

LOCAL = UpstreamReport("local", "closed", 1, None, 10, [100, 200])
REPORT = NodeReport(
    id="a",
    state="ready",
    version="1.0",
    started_at=1.0,
    live_runs=2,
    sockets=3,
    loop_lag_ms=1.0,
    lease_expires_at=None,
    runs_started=5,
    events=100,
    output_tokens=50,
    first_tokens=4,
    first_token_ms=[10, 20],
    errors={"upstream_error": 1},
    upstreams=[LOCAL],
)


def test_a_report_survives_the_way_to_another_node_and_ignores_what_a_later_version_adds() -> None:
    fields = orjson.loads(orjson.dumps(asdict(REPORT)))
    fields["later"] = fields["upstreams"][0]["later"] = True
    assert NodeReport.read(fields) == REPORT
    del fields["errors"]
    with pytest.raises(KeyError):
        NodeReport.read(fields)


def test_an_upstream_is_as_open_as_on_the_node_where_it_is_worst() -> None:
    broken = replace(LOCAL, breaker="open", failures=5, open_until=60.0, newest_ms=[900])
    other = replace(REPORT, id="b", upstreams=[broken, UpstreamReport("far", "half_open", 0, 9.0, 0, [])])
    assert merge_upstreams([REPORT, other]) == [
        {
            "name": "local",
            "breaker": "open",
            "failures": 5,
            "open_until": 60.0,
            "calls": 20,
            "latency_ms": {"p50": 200, "p99": 900},
        },
        {
            "name": "far",
            "breaker": "half_open",
            "failures": 0,
            "open_until": 9.0,
            "calls": 0,
            "latency_ms": None,
        },
    ]


def test_totals_are_sums_and_percentiles_are_of_all_nodes() -> None:
    other = replace(
        REPORT, id="b", first_tokens=1, first_token_ms=[500], errors={"upstream_error": 2, "quota_exceeded": 1}
    )
    assert totals([REPORT, other]) == {
        "runs_started": 10,
        "runs_live": 4,
        "events": 200,
        "output_tokens": 100,
        "first_token_ms": {"p50": 20, "p99": 500, "count": 5},
        "errors": {"upstream_error": 3, "quota_exceeded": 1},
    }
    assert totals([replace(REPORT, first_token_ms=[])])["first_token_ms"] is None


def test_a_silent_node_has_the_fields_of_every_other_one() -> None:
    assert silent_row("b").keys() == REPORT.row("a", with_sums=True).keys()
