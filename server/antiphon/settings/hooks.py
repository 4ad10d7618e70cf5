"""The tables of extensions: `[[middleware]]`, `[[context]]`, `[[observer]]`, `[[skill]]` and `[hooks]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, model_validator

from antiphon.settings.table import Table

_NAME = r"^[A-Za-z0-9_.-]{1,64}$"
_ONLY = {"entry": "python", "options": "python", "path": "file", "url": "http", "headers_env": "http"}
"""Keys of `[[context]]` that belong to one kind."""


class HooksSettings(Table):
    """Bounds of the extensions in Python (docs/hooks.md)."""

    middleware_chain_s: float = Field(
        10, gt=0, description="What all middlewares together may take before a run goes on."
    )
    emit_pending: int = Field(
        1000, gt=0, description="Events that wait for one observer; later ones are lost and counted in the log."
    )
    emit_timeout_s: float = Field(30, gt=0, description="What an observer may take for one event.")
    drain_s: float = Field(5, ge=0, description="What middlewares and observers get at shutdown.")


class MiddlewareSettings(Table):
    """What stands around every run, in the order of the file: the first is the outermost."""

    name: str = Field(pattern=_NAME)
    entry: str | None = Field(
        None,
        description="`package.module:name`; absent: the entry point of this name in `antiphon.middleware`.",
        examples=[
            '[[middleware]]\nname = "no-secrets"\nentry = "our_hooks:NoSecrets"\noptions = { words = ["x"] }'
        ],
    )
    timeout_s: float = Field(5, gt=0, description="Of its own work, before the run and after it.")
    options: dict[str, Any] = Field({}, description="Arguments of the class or function that makes it.")


class ContextSettings(Table):
    """What is put before the instructions of a run, and nobody sees but the model."""

    name: str = Field(pattern=_NAME)
    kind: Literal["python", "file", "http"]
    entry: str | None = Field(
        None, description="Of `python`; absent: the entry point of this name in `antiphon.context`."
    )
    options: dict[str, Any] = Field({}, description="Arguments of the class or function that makes it.")
    path: Path | None = Field(
        None,
        description="Of `file`: a folder, seen from the data folder; absent: `context`. Read are its `all.md`, "
        "`<tenant>/all.md` and `<tenant>/agents/<agent>.md`.",
    )
    url: str | None = Field(None, description='Of `http`: asked with POST; answers `{"text": ...}` or 204.')
    headers_env: dict[str, str] = Field({}, description="Header to the variable that holds its whole value.")
    default: bool = Field(True, description="Asked for every run, unless the run or its agent names others.")
    required: bool = Field(False, description="A run fails without it.")
    timeout_s: float = Field(2, gt=0)
    max_bytes: int = Field(64 * 1024, gt=0, description="Of its text; a longer one counts as a failure.")

    @model_validator(mode="after")
    def _check(self) -> ContextSettings:
        for key, kind in _ONLY.items():
            if key in self.model_fields_set and self.kind != kind:
                raise ValueError(f"context {self.name!r}: {key} does not belong to kind {self.kind!r}")
        if self.kind == "http" and not (self.url or "").startswith(("http://", "https://")):
            raise ValueError(f"context {self.name!r}: an http provider needs a url with http:// or https://")
        return self


class ObserverSettings(Table):
    """What hears what happens to runs."""

    name: str = Field(pattern=_NAME)
    entry: str | None = Field(
        None,
        description="`package.module:function`; absent: the entry point of this name in `antiphon.observers`.",
    )
    options: dict[str, Any] = Field({}, description="Arguments of the function, beside the subscriptions.")
    required: bool = Field(False, description="A run whose start it does not take fails.")
    timeout_s: float = Field(2, gt=0, description="What it may take for `run.started`, for which runs wait.")


class SkillSettings(Table):
    """What executes a skill. The name is the skill's id."""

    name: str = Field(pattern=_NAME)
    entry: str | None = Field(
        None,
        description="`package.module:name`; absent: the entry point of this name in `antiphon.skills`.",
    )
    options: dict[str, Any] = Field({}, description="Arguments of the class or function that makes it.")
    timeout_s: float = Field(600, gt=0, description="Of one execution.")


_Named = TypeVar("_Named", MiddlewareSettings, ContextSettings, ObserverSettings, SkillSettings)


def _distinct(tables: Sequence[_Named]) -> Sequence[_Named]:
    names = [table.name for table in tables]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two of them are named {name!r}; names must differ")
    return tables


Middlewares = Annotated[tuple[MiddlewareSettings, ...], AfterValidator(_distinct)]
Contexts = Annotated[tuple[ContextSettings, ...], AfterValidator(_distinct)]
Observers = Annotated[tuple[ObserverSettings, ...], AfterValidator(_distinct)]
Skills = Annotated[tuple[SkillSettings, ...], AfterValidator(_distinct)]
