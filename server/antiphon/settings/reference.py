"""Writes docs/configuration.md from the settings tree (`--check` compares)."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from antiphon.settings.tree import Settings

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"

_HEAD = """# Configuration

Made from `server/antiphon/settings/` by `make wire`; do not edit.

Values come from flags, then environment variables, then `antiphon.toml` (the file named by `--config` or
`ANTIPHON_CONFIG`, else the one in the working folder, else in the data folder). Unknown keys are errors.
`antiphon doctor` prints what is in force.

A table's key in the environment is `ANTIPHON_<TABLE>__<KEY>`, for example `ANTIPHON_LIMITS__NAMED_LANES=64`.
"""


def render() -> str:
    """The page."""
    parts = [_HEAD, "## Top level\n", *_table(Settings, "ANTIPHON_", simple_only=True)]
    for name, field in Settings.model_fields.items():
        model = _model_of(field.annotation)
        if model is None:
            continue
        repeated = "tuple" in str(field.annotation)
        named = str(field.annotation).startswith("dict")
        title = f"[[{name}]]" if repeated else f"[{name}.<name>]" if named else f"[{name}]"
        parts += _section(title, model)
    return "\n".join(parts) + "\n"


def _section(title: str, model: type[BaseModel]) -> list[str]:
    """A table of the file, then the tables inside it."""
    about = inspect.cleandoc(model.__doc__ or "")
    parts = [f"\n## `{title}`\n", f"{about}\n", *_table(model, None, simple_only=True)]
    for name, field in model.model_fields.items():
        inner = _model_of(field.annotation)
        if inner is not None:
            parts += _section(f"[{title.strip('[]')}.{name}]", inner)
    return parts


def _table(model: type[BaseModel], env_prefix: str | None, *, simple_only: bool = False) -> list[str]:
    head = "| key | default | meaning |" if env_prefix is None else "| key | variable | default | meaning |"
    lines = [head, "|" + "---|" * (head.count("|") - 1)]
    examples: list[str] = []
    for name, field in model.model_fields.items():
        if simple_only and _model_of(field.annotation) is not None:
            continue
        default = "required" if field.is_required() else _shown(field.get_default())
        variable = f" `{env_prefix}{name.upper()}` |" if env_prefix is not None else ""
        lines.append(f"| `{name}` |{variable} {default} | {field.description or ''} |")
        examples += field.examples or []
    return [*lines, *(f"\n```toml\n{example}\n```" for example in examples)]


def _model_of(annotation: Any) -> type[BaseModel] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return "`[]`"
    if value is None or isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if str(value) else "empty"


def main() -> int:
    """Write or check the page; the exit status of the process."""
    text = render()
    if "--check" in sys.argv:
        return 0 if PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
