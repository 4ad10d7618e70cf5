"""`antiphon usage`: a table for people, JSON for programs, and one clear line when there is nothing to read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.store.usage import CallRow, record
from tests.cli.running import antiphon
from tests.store.database import database
from tests.support.server import running_server

DAY = 20_454  # 2026-01-01
SPAN = ("--from", "2026-01-01", "--to", "2026-01-31")


async def filled(place: Path | str) -> None:
    async with database(place) as store:
        calls = [
            CallRow(
                run_id=f"resp_{number}",
                step="1",
                tenant="acme",
                principal="key:k",
                agent=None if number else "[red]",
                model="m",
                upstream="stub",
                at=DAY * 86_400.0,
                day=DAY,
                input_tokens=1_000,
                cached_tokens=0,
                output_tokens=500,
                reasoning_tokens=0,
                total_tokens=1_500,
                cost_nano=None if number else 2_500_000,
                estimated=number == 1,
            )
            for number in range(3)
        ]
        await store.writer.submit(record([], [], calls, tell_repeats=False))


async def test_the_table_has_a_line_for_each_group_and_one_for_all(tmp_path: Path) -> None:
    await filled(tmp_path)
    done = await antiphon(tmp_path, "usage", "--data-dir", str(tmp_path), "--by", "agent", *SPAN)
    assert (done.status, done.err) == (0, "")
    lines = [" ".join(line.replace("│", " ").replace("┃", " ").split()) for line in done.out.splitlines()]
    assert "Usage from 2026-01-01 to 2026-01-31 (UTC)" in lines
    assert "- 2 2 2,000 0 1,000 0 3,000 unknown" in lines
    assert "[red] 1 1 1,000 0 500 0 1,500 0.002500" in lines
    assert "all 3 3,000 0 1,500 0 4,500 0.002500" in lines
    assert "2 calls have no price, 1 are estimates" in lines


async def test_json_is_what_the_endpoint_gives(tmp_path: Path) -> None:
    await filled(tmp_path)
    done = await antiphon(tmp_path, "usage", "--data-dir", str(tmp_path), "--by", "day", *SPAN, "--json")
    async with running_server(tmp_path) as server:
        import httpx2

        async with httpx2.AsyncClient(base_url=server.url, trust_env=False) as client:
            params = {"by": "day", "from": "2026-01-01", "to": "2026-01-31"}
            answer = await client.get("/v1/usage", params=params)
    assert json.loads(done.out) == answer.json()
    assert answer.json()["data"][0]["day"] == "2026-01-01"


async def test_it_reads_postgresql_too(tmp_path: Path, postgres_url: str) -> None:
    await filled(postgres_url)
    env = {"ANTIPHON_STORE_URL": postgres_url, "ANTIPHON_BUS_URL": "redis://127.0.0.1:1/0"}
    done = await antiphon(tmp_path, "usage", *SPAN, "--json", "--tenant", "acme", env=env)
    assert done.status == 0, done.err
    assert json.loads(done.out)["total"]["calls"] == 3
    nobody = await antiphon(tmp_path, "usage", *SPAN, "--json", "--tenant", "nobody", env=env)
    assert json.loads(nobody.out)["data"] == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "there is no database"),
        (("--by", "color"), "by is one of tenant, agent, model, day"),
        (("--from", "yesterday"), "from is a day such as"),
    ],
)
async def test_what_cannot_be_reported_is_one_clear_line(
    tmp_path: Path, flags: tuple[str, ...], said: str
) -> None:
    if flags:
        await filled(tmp_path)
    done = await antiphon(tmp_path, "usage", "--data-dir", str(tmp_path), *flags)
    assert done.status == 2 and said in done.words and "Traceback" not in done.err
