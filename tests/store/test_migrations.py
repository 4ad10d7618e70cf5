"""The tables as the migrations make them are the tables as SQLAlchemy reads them, on both engines."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from antiphon.errors import StartupError
from antiphon.store import database
from antiphon.store.postgres import migrating
from antiphon.store.schema import Migrated, newest
from antiphon.store.tables import metadata
from tests.support import postgres


def engine_of(place: Path | str) -> sqlalchemy.Engine:
    if isinstance(place, Path):
        return sqlalchemy.create_engine(f"sqlite:///{place / 'antiphon.db'}")
    return sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(place))


def migrate(place: Path | str) -> Migrated:
    if isinstance(place, Path):
        return database.migrate(place / "antiphon.db")
    return migrating.migrate(place, 5)


def execute(place: Path | str, statement: str) -> list[object]:
    engine = engine_of(place)
    with engine.begin() as connection:
        result = connection.execute(sqlalchemy.text(statement))
        rows = [tuple(row) for row in result] if result.returns_rows else []
    engine.dispose()
    return rows


def schema(place: Path | str) -> dict[str, object]:
    engine = engine_of(place)
    inspector = sqlalchemy.inspect(engine)
    found: dict[str, object] = {}
    for name in sorted(set(inspector.get_table_names()) - {"alembic_version"}):
        columns = [
            (c["name"], str(c["type"]), c["nullable"], inspector.get_pk_constraint(name)["constrained_columns"])
            for c in inspector.get_columns(name)
        ]
        indexes = sorted(
            (str(i["name"]), tuple(i["column_names"]), bool(i["unique"])) for i in inspector.get_indexes(name)
        )
        found[name] = (columns, indexes)
    engine.dispose()
    partial = (
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql LIKE '%WHERE%' ORDER BY name"
        if isinstance(place, Path)
        else "SELECT indexname, indexdef FROM pg_indexes WHERE indexdef LIKE '%WHERE%' ORDER BY indexname"
    )
    found["partial"] = [
        (name, sql.upper().partition("WHERE")[2].strip().removeprefix("RESPONSES."))
        for name, sql in execute(place, partial)  # type: ignore[misc]
    ]
    return found


def test_migrations_and_tables_do_not_differ(place: Path | str) -> None:
    migrate(place)
    engine = engine_of(place)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True, "render_as_batch": True}
        )
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_the_schema_is_the_one_the_tables_would_make_themselves(place: Path | str) -> None:
    migrate(place)
    migrated = schema(place)
    engine = engine_of(place)
    metadata.drop_all(engine)
    metadata.create_all(engine)
    engine.dispose()
    assert migrated == schema(place)
    assert len(migrated["partial"]) == 2  # type: ignore[arg-type]


def test_migrating_again_changes_nothing_and_says_so(place: Path | str) -> None:
    assert migrate(place) == Migrated(None, newest())
    execute(place, "INSERT INTO checkpoints (run_id, head, payload) VALUES ('resp_1', 1, '')")
    before = (schema(place), execute(place, "SELECT * FROM cluster"))
    assert migrate(place) == Migrated(newest(), newest())
    assert (schema(place), execute(place, "SELECT * FROM cluster")) == before
    assert execute(place, "SELECT run_id FROM checkpoints") == [("resp_1",)]


def test_a_migration_that_is_interrupted_leaves_nothing_and_the_next_one_makes_everything(
    place: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object, **more: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("alembic.runtime.migration.HeadMaintainer.update_to_step", interrupted)
        migrate(place)  # its tables are made, its version is not written
    assert schema(place) == {"partial": []}
    assert migrate(place) == Migrated(None, newest())


def test_a_folder_with_odd_characters_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / "a folder with % and ? in it"
    migrate(folder)
    before = (folder / "antiphon.db").read_bytes()
    migrate(folder)
    assert (folder / "antiphon.db").read_bytes() == before


def test_a_database_of_a_newer_version_is_left_alone_and_said_to_be_one(place: Path | str) -> None:
    migrate(place)
    execute(place, "UPDATE alembic_version SET version_num = '9999'")
    before = schema(place)
    with pytest.raises(StartupError) as caught:
        migrate(place)
    message = caught.value.message
    assert "another version" in message and "9999" in message and newest() in message and "\n" not in message
    assert schema(place) == before and execute(place, "SELECT * FROM alembic_version") == [("9999",)]


def test_two_databases_differ_in_their_id(place: Path | str, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    ids = []
    for one in (place, other):
        migrate(one)
        ids += execute(one, "SELECT value FROM cluster WHERE name = 'database_id'")
    assert len(set(ids)) == 2


async def test_nodes_that_start_at_once_make_the_tables_once(postgres_url: str) -> None:
    done = await asyncio.gather(*(asyncio.to_thread(migrate, postgres_url) for _ in range(5)))
    assert (
        sorted(done, key=lambda one: one.before or "")
        == [Migrated(None, newest())] + [Migrated(newest(), newest())] * 4
    )
    assert len(postgres.execute(postgres_url, "SELECT * FROM cluster")) == 1


async def test_a_node_waits_for_one_that_migrates_and_then_finds_the_tables_made(postgres_url: str) -> None:
    migrating_node = psycopg.connect(postgres_url)
    migrating_node.execute(f"SELECT pg_advisory_xact_lock({migrating.LOCK_KEY})")
    waiting = asyncio.ensure_future(asyncio.to_thread(migrate, postgres_url))
    look = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    async with asyncio.timeout(40):
        while not await asyncio.to_thread(postgres.execute, postgres_url, look):
            assert not waiting.done()
    migrating_node.commit()
    migrating_node.close()
    assert await waiting == Migrated(None, newest())


async def test_a_node_that_migrates_for_too_long_is_not_waited_for_for_ever(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrating, "LOCK_WAIT_S", 0.2)
    with psycopg.connect(postgres_url) as other:
        other.execute(f"SELECT pg_advisory_xact_lock({migrating.LOCK_KEY})")
        with pytest.raises(StartupError, match="held them for"):
            await asyncio.to_thread(migrate, postgres_url)


def test_a_user_who_may_not_make_tables_is_told_so(postgres_url: str) -> None:
    name = postgres_url.rpartition("/")[2]
    postgres.execute(postgres_url, f"CREATE ROLE r_{name} LOGIN PASSWORD 'p'")
    url = postgres_url.replace("antiphon:a%20pass%2Fword", f"r_{name}:p")
    try:
        with pytest.raises(StartupError, match="permission denied for schema public"):
            migrate(url)
    finally:
        postgres.execute(postgres_url, f"DROP ROLE r_{name}")
