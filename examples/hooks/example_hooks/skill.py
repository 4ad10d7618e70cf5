"""Skill: work that is no conversation, as a run. This one asks a model for each part of a long text."""

from __future__ import annotations

from typing import Any

from antiphon.hooks import SkillContext, SkillDispatch


class Minutes:
    """model: which one says what each speech was about."""

    def __init__(self, model: str) -> None:
        self._model = model

    async def __call__(self, dispatch: SkillDispatch, context: SkillContext) -> dict[str, Any]:
        """input: `{"speeches": [...]}`. The result becomes the text of the run, as JSON."""
        points = []
        for speech in dispatch.input["speeches"]:
            # A run of its own for the same caller: admitted, authorised and charged like every other.
            result = await context.ask({"model": self._model, "input": speech, "store": False})
            points.append(result.response["output"][-1]["content"][0]["text"])
        return {"run": dispatch.run_id, "points": points}
