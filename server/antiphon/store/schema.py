"""Bringing the tables up to date, whatever engine they are in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import alembic.command
import sqlalchemy as sa
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from antiphon.errors import StartupError


@dataclass(frozen=True, slots=True)
class Migrated:
    """Versions of the schema. before: None where there were no tables."""

    before: str | None
    after: str


def upgrade(connection: sa.Connection, place: str) -> Migrated:
    """Run the migrations that are missing, in the connection's transaction. place: the database, for people.

    Raises StartupError where a newer server made the schema.
    """
    config = _config()
    before, head = version(connection), newest()
    if before not in (None, *_known(config)):
        raise StartupError(
            f"the database {place} was made by another version of antiphon: its schema is {before}, "
            f"this one knows {head}; use the newer server, or another database"
        )
    config.attributes["connection"] = connection
    alembic.command.upgrade(config, "head")
    return Migrated(before, head)


def version(connection: sa.Connection) -> str | None:
    """Of the schema that is there, None where there is none."""
    return MigrationContext.configure(connection).get_current_revision()


def newest() -> str:
    """The version this server needs."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def _known(config: Config) -> list[str]:
    return [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config
