"""The tables as the migrations make them are the tables as SQLAlchemy reads them."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from antiphon.store.database import migrate
from antiphon.store.tables import metadata


def test_migrations_and_tables_do_not_differ(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.db"
    migrate(path)
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True, "render_as_batch": True}
        )
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_the_schema_is_the_one_the_tables_would_make_themselves(tmp_path: Path) -> None:
    def schema(path: Path) -> dict[str, object]:
        engine = sqlalchemy.create_engine(f"sqlite:///{path}")
        if path.name == "made.db":
            metadata.create_all(engine)
        inspector = sqlalchemy.inspect(engine)
        found: dict[str, object] = {}
        for name in sorted(set(inspector.get_table_names()) - {"alembic_version"}):
            columns = [
                (c["name"], str(c["type"]), c["nullable"], c["primary_key"]) for c in inspector.get_columns(name)
            ]
            indexes = sorted(
                (i["name"], tuple(i["column_names"]), i["unique"]) for i in inspector.get_indexes(name)
            )
            found[name] = (columns, indexes)
        with engine.connect() as connection:
            query = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql LIKE '%WHERE%' ORDER BY name"
            found["partial"] = [
                (name, sql.upper().partition("WHERE")[2].strip().removeprefix("RESPONSES."))
                for name, sql in connection.execute(sqlalchemy.text(query))
            ]
        engine.dispose()
        return found

    migrated = tmp_path / "migrated.db"
    migrate(migrated)
    assert schema(migrated) == schema(tmp_path / "made.db")


def test_migrating_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a folder with % and ? in it" / "antiphon.db"
    migrate(path)
    before = path.read_bytes()
    migrate(path)
    assert path.read_bytes() == before
