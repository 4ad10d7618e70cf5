"""Reading the settings: the file, the environment, the flags. What is wrong is said in one line each."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import SettingsConfigDict, SettingsError

from antiphon.errors import StartupError
from antiphon.settings.tree import Settings

_OTHER_VARIABLES = frozenset(
    {
        "ANTIPHON_CONFIG",
        "ANTIPHON_URL",
        "ANTIPHON_API_KEY",
        "ANTIPHON_MODEL",
        "ANTIPHON_TEST_URL",
        "ANTIPHON_WORKER_GROUP",
    }
)
"""Names that are no settings: the configuration file's, what example clients and tests read, and what a supervisor
tells its workers."""


def find_config(explicit: Path | None, data_dir: Path) -> Path | None:
    """The configuration file: the one named, else `antiphon.toml` here, else in the data folder.

    Raises StartupError when the one named is not there.
    """
    if explicit is not None:
        if not explicit.is_file():
            raise StartupError(f"configuration file {explicit} does not exist")
        return explicit
    for folder in (Path.cwd(), data_dir.expanduser()):
        if (folder / "antiphon.toml").is_file():
            return folder / "antiphon.toml"
    return None


def load_settings(config: Path | None = None, **flags: Any) -> tuple[Settings, Path | None]:
    """Read file, environment and flags (flags that are None are not set); gives also the file that was read.

    Raises StartupError with one line for each wrong key.
    """
    given = {key: value for key, value in flags.items() if value is not None}
    folder = given.get("data_dir") or os.environ.get("ANTIPHON_DATA_DIR") or "~/.antiphon"
    path = find_config(config, Path(folder))

    class FromFile(Settings):
        model_config = SettingsConfigDict(toml_file=path)

    try:
        settings = FromFile(**given)
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}" for e in error.errors()]
        raise StartupError("the configuration is not valid:\n" + "\n".join(lines)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise StartupError(f"the configuration file {path} cannot be read: {error}") from error
    except SettingsError as error:
        raise StartupError(f"the environment is not valid: {error}") from error
    _refuse_unknown_variables(settings)
    return settings, path


def _refuse_unknown_variables(settings: Settings) -> None:
    """A misspelt variable must not be lost silently; pydantic looks only for those it knows."""
    known = {f"ANTIPHON_{name.upper()}" for name in Settings.model_fields} | _OTHER_VARIABLES
    known |= {upstream.key_env for upstream in settings.upstream if upstream.key_env}
    known |= {name for tool in settings.tool for name in tool.variables} | {settings.web_search.key_env or ""}
    known |= {name for context in settings.context for name in context.headers_env.values()}
    known |= {settings.jwt.secret_env} if settings.jwt is not None and settings.jwt.secret_env else set()
    lines = [
        f"  {name}: there is no such setting"
        for name in sorted(os.environ)
        if name.startswith("ANTIPHON_") and name.partition("__")[0] not in known
    ]
    if lines:
        raise StartupError("the environment is not valid:\n" + "\n".join(lines))
