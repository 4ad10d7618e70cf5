"""docker-compose.yml and Dockerfile, read as their tools read them (the part of both languages that ours use)."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?::([-?])([^}]*))?\})")


class Unset(Exception):
    """A variable that must be set is not; the text is what the file says about it."""


@dataclass(frozen=True)
class Dockerfile:
    """stages: the instructions of each, as (word, rest)."""

    stages: list[list[tuple[str, str]]]

    @property
    def final(self) -> list[tuple[str, str]]:
        return self.stages[-1]

    def last(self, word: str) -> str:
        """The last instruction of that word in the image that comes out."""
        return [rest for instruction, rest in self.final if instruction == word][-1]

    @property
    def command(self) -> list[str]:
        """ENTRYPOINT and CMD."""
        return [*json.loads(self.last("ENTRYPOINT")), *json.loads(self.last("CMD"))]

    @property
    def healthcheck(self) -> list[str]:
        found: list[str] = json.loads(self.last("HEALTHCHECK").partition("CMD ")[2])
        return found

    @property
    def environment(self) -> dict[str, str]:
        words = [word for instruction, rest in self.final if instruction == "ENV" for word in shlex.split(rest)]
        return dict(word.split("=", 1) for word in words)

    @property
    def copied(self) -> dict[str, Path]:
        """Files of the checkout, by where they are in the image."""
        copies = [rest.split() for instruction, rest in self.final if instruction == "COPY" and "--" not in rest]
        return {copy[1]: ROOT / copy[0] for copy in copies}


def read_dockerfile(text: str) -> Dockerfile:
    """Parse a Dockerfile: comments, continued lines, stages."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    stages: list[list[tuple[str, str]]] = []
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stages.append([])
        stages[-1].append((word, rest.strip()))
    return Dockerfile(stages)


@dataclass(frozen=True)
class Service:
    """One service, its variables replaced. mounts: files of the checkout, by where they are in the container."""

    name: str
    command: list[str]
    environment: dict[str, str]
    healthcheck: list[str]
    mounts: dict[str, Path] = field(default_factory=dict)


def compose_text() -> str:
    return (ROOT / "docker-compose.yml").read_text()


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of a .env file, as compose takes them."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {name: "".join(shlex.split(value)) for name, _, value in (line.partition("=") for line in lines)}


def interpolated(value: Any, variables: Mapping[str, str]) -> Any:
    """A value of the file with its variables replaced. Raises Unset."""
    if isinstance(value, dict):
        return {key: interpolated(inner, variables) for key, inner in value.items()}
    if isinstance(value, list):
        return [interpolated(inner, variables) for inner in value]
    return _replaced(value, variables) if isinstance(value, str) else value


def read_services(variables: Mapping[str, str]) -> dict[str, Service]:
    """Every service of docker-compose.yml with the variables of a .env file. Raises Unset."""
    document = yaml.safe_load(compose_text())
    image = read_dockerfile((ROOT / "Dockerfile").read_text())
    services = {}
    for name, given in interpolated(document["services"], variables).items():
        ours = "build" in given
        environment = {key: _passed(key, value, variables) for key, value in given.get("environment", {}).items()}
        mounts = [mount.split(":") for mount in given.get("volumes", []) if mount.startswith("./")]
        services[name] = Service(
            name,
            [*image.command] if ours else given["command"],
            {**(image.environment if ours else {}), **{k: v for k, v in environment.items() if v is not None}},
            given["healthcheck"]["test"],
            {place: ROOT / source for source, place, *_ in mounts} | (image.copied if ours else {}),
        )
    return services


def _passed(name: str, value: Any, variables: Mapping[str, str]) -> str | None:
    """A variable without a value is passed on if it is set."""
    return variables.get(name) if value is None else str(value)


def _replaced(text: str, variables: Mapping[str, str]) -> str:
    def one(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        if name is None:
            return "$"
        value = variables.get(name, "")
        if value or kind is None:
            return value
        if kind == "?":
            raise Unset(rest)
        return str(rest)

    return _VARIABLE.sub(one, text)
