"""How agents are named, and which one a create names."""

from __future__ import annotations

import re

from antiphon.errors import RequestError

AGENT_NAME = r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}"
"""What a name looks like. It may stand in a log line or a label, never raw in a prompt."""

DEFAULT = "default"
"""The built-in agent of a create that names none; nobody else may have its name."""

PREFIX = "agent:"
"""In front of the name where it stands in `model`."""

_NAME = re.compile(AGENT_NAME)


def check_agent_name(name: str, param: str) -> str:
    """The name, if it can be one. Raises RequestError."""
    if not _NAME.fullmatch(name):
        raise RequestError(
            "The name of an agent is 1-128 characters of A-Z a-z 0-9 . _ : / - and begins with a letter or digit.",
            param=param,
        )
    return name


def named(model: str | None, agent: str | None) -> tuple[str | None, str | None]:
    """The agent and the model that a create names with its `model` and `antiphon.agent`.

    Raises RequestError for a name that cannot be one, and for two different agents.
    """
    if model is not None and model.startswith(PREFIX):
        in_model = check_agent_name(model.removeprefix(PREFIX), "model")
        if agent is not None and agent != in_model:
            raise RequestError("model and antiphon.agent name different agents.", param="antiphon.agent")
        return in_model, None
    return (None if agent is None else check_agent_name(agent, "antiphon.agent")), model
