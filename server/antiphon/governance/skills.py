"""Skills: work that is no conversation, executed by the operator's Python as a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic_core import PydanticSerializationError, to_json

from antiphon.core.principal import Principal
from antiphon.errors import AntiphonError, HookError
from antiphon.governance.hooks.calling import place_of
from antiphon.governance.hooks.dispatch import Dispatcher
from antiphon.hooks import SkillContext, SkillDispatch, SkillExecutor

log = structlog.get_logger(__name__)

FIND = "skill.find"


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill and what executes it. timeout_s: of one execution."""

    id: str
    execute: SkillExecutor
    timeout_s: float


class Skills:
    """All skills of the server: those configured, then those that a subscriber of `skill.find` knows."""

    def __init__(self, skills: Mapping[str, Skill], dispatcher: Dispatcher, timeout_s: float) -> None:
        """timeout_s: of an executor that was found by a subscriber."""
        self._skills = skills
        self._dispatcher = dispatcher
        self._timeout_s = timeout_s

    async def find(self, dispatch: SkillDispatch) -> Skill:
        """What executes a skill. Raises HookError `skill_unavailable`."""
        known = self._skills.get(dispatch.skill_id)
        if known is not None:
            return known
        found = await self._dispatcher.bail(FIND, dispatch)
        if found is None:
            raise HookError(
                "SkillEngine is not provided", code="skill_unavailable", headers={"x-should-retry": "false"}
            )
        return Skill(dispatch.skill_id, found, self._timeout_s)

    async def execute(
        self,
        dispatch: SkillDispatch,
        principal: Principal,
        ask: Callable[[Mapping[str, Any]], Awaitable[Any]],
        skill: Skill | None = None,
    ) -> str:
        """Do the work; gives its result as JSON. skill: from `find`, if that was asked before.

        ask: how the executor calls models (`SkillContext.ask`). Raises AntiphonError: those of the executor
        unchanged, HookError for a crash, a result that is no JSON, or one that did not come in time.
        """
        skill = skill or await self.find(dispatch)
        context = SkillContext(principal.tenant, principal.id, ask)
        name = f"skill {skill.id}"
        try:
            result = await self._dispatcher.calls.within(skill.execute(dispatch, context), skill.timeout_s, name)
            return to_json(result, inf_nan_mode="null").decode()
        except AntiphonError:
            raise
        except TimeoutError as error:
            log.error("skill_timeout", skill=skill.id, response_id=dispatch.run_id)
            raise HookError(f"The skill did not end within {skill.timeout_s:g} s.") from error
        except PydanticSerializationError as error:
            log.error("skill_failed", skill=skill.id, response_id=dispatch.run_id, error="no JSON")
            raise HookError("The skill gave something that is no JSON.") from error
        except Exception as error:
            log.error("skill_failed", skill=skill.id, response_id=dispatch.run_id, error=place_of(error))
            raise HookError("The skill failed.") from error
