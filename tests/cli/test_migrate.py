"""`antiphon migrate`, and what doctor and a start say about the store that is configured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from antiphon.errors import StartupError
from antiphon.settings import Settings
from antiphon.store.schema import newest
from tests.cli.running import antiphon
from tests.support import postgres


async def test_migrate_makes_the_tables_and_says_from_where_to_where(postgres_url: str, tmp_path: Path) -> None:
    env = {"ANTIPHON_STORE_URL": postgres_url}
    first = await antiphon(tmp_path, "migrate", env=env)
    again = await antiphon(tmp_path, "migrate", env=env)
    assert (first.status, again.status) == (0, 0), first.err + again.err
    assert f"schema empty -> {newest()}" in first.out and f"the schema is {newest()}, nothing to do" in again.out
    assert "pass" not in first.out + first.err + again.out + again.err
    assert postgres.execute(postgres_url, "SELECT version_num FROM alembic_version") == [(newest(),)]


async def test_migrate_makes_the_file_of_one_machine(tmp_path: Path) -> None:
    data = tmp_path / "data"
    done = await antiphon(tmp_path, "migrate", "--data-dir", str(data))
    assert done.status == 0 and f"{data / 'antiphon.db'}: schema empty -> {newest()}" in done.out
    assert (data / "antiphon.db").is_file()


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("postgresql://u:s3cret@127.0.0.1:1/x", "Connection refused"),
        ("postgresql://u:s3cret@127.0.0.1/x?sslmod=1", "sslmod"),
        ("mysql://u:s3cret@127.0.0.1/x", "store_url: Value error, it begins neither with sqlite:///"),
    ],
)
async def test_what_cannot_be_migrated_is_said_in_one_line(tmp_path: Path, url: str, hint: str) -> None:
    done = await antiphon(tmp_path, "migrate", env={"ANTIPHON_STORE_URL": url})
    assert done.status == 2 and hint in done.words and "s3cret" not in done.out + done.err
    assert "Traceback" not in done.err


async def test_migrate_refuses_a_schema_that_is_newer(postgres_url: str, tmp_path: Path) -> None:
    env = {"ANTIPHON_STORE_URL": postgres_url}
    await antiphon(tmp_path, "migrate", env=env)
    postgres.execute(postgres_url, "UPDATE alembic_version SET version_num = '9999'")
    done = await antiphon(tmp_path, "migrate", env=env)
    assert done.status == 2 and "another version of antiphon" in done.words and "9999" in done.words


async def test_doctor_looks_at_postgresql_changes_nothing_there_and_shows_no_password(
    postgres_url: str, tmp_path: Path
) -> None:
    env = {"ANTIPHON_STORE_URL": postgres_url, "ANTIPHON_BUS_URL": "redis://u:an%20other@127.0.0.1:1"}
    empty = await antiphon(tmp_path, "doctor", env=env)
    assert empty.status == 1 and "has no tables" in empty.out and "run `antiphon migrate`" in empty.out
    assert postgres.execute(postgres_url, "SELECT 1 FROM pg_tables WHERE schemaname = 'public'") == []
    await antiphon(tmp_path, "migrate", env=env)
    ready = await antiphon(tmp_path, "doctor", env=env)
    assert re.search(rf"PostgreSQL \d+\.\d+, schema {newest()}", ready.out)
    assert not any("failed" in line for line in ready.out.splitlines() if "database" in line)
    for said in (empty.out, empty.err, ready.out, ready.err):
        assert "a%20pass" not in said and "a pass" not in said and "an%20other" not in said


@pytest.mark.parametrize(
    ("store_url", "bus_url", "hint"),
    [
        ("postgresql://h/x", "memory://", "bus_url has to be Redis"),
        ("", "redis://h", "store_url has to be PostgreSQL"),
        ("sqlite:////x.db", "rediss://h", "store_url has to be PostgreSQL"),
    ],
)
def test_only_the_two_pairs_of_engines_are_taken(store_url: str, bus_url: str, hint: str) -> None:
    with pytest.raises(StartupError, match=hint):
        Settings(store_url=store_url, bus_url=bus_url).check_engines()
    Settings().check_engines()
    Settings(store_url="postgresql://h/x", bus_url="redis://h").check_engines()
