"""Answers that no model gives, but a middleware or a skill. Runs play them like a model's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson

from antiphon.errors import AntiphonError, UpstreamError
from antiphon.hooks import Reply
from antiphon.ports import ModelCall
from antiphon.runs.run import Model

GIVEN = "antiphon/given"
"""The model of a run that names none and needs none."""

Give = Callable[[], Awaitable[Reply]]


class GivenAnswer:
    """Implements the `Upstream` port for one run. name: who answers. give: waits for the answer."""

    tools: tuple[str, ...] = ()

    def __init__(self, name: str, give: Give) -> None:
        self.name = name
        self._give = give

    async def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        """See the port. Raises UpstreamError with the code of whatever of ours `give` raised."""
        try:
            reply = await self._give()
        except AntiphonError as error:
            raise UpstreamError(
                error.message, code=error.code, status=error.status, headers=error.headers
            ) from error
        yield [_whole(_items(reply))]

    async def models(self) -> Sequence[str]:
        """None: nobody can name it."""
        return []

    async def input_tokens(self, call: ModelCall) -> None:
        """No model reads anything."""

    async def aclose(self) -> None:
        """Nothing is held."""


def given_model(by: str, model: str | None, give: Give) -> Model:
    """What a run has in the place of a model. by: who answers. model: the one that was asked for."""
    return Model(GivenAnswer(by, give), model or GIVEN, None, charged=False)


def _items(reply: Reply) -> Sequence[Mapping[str, Any]]:
    if reply.items is not None:
        return [_in_parts(item) for item in reply.items]
    return [_in_parts({"type": "message", "role": "assistant", "content": reply.text})]


def _in_parts(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message whose content is a text, as inputs have them, with the one part that outputs have."""
    if item["type"] != "message" or not isinstance(item.get("content"), str):
        return item
    return {**item, "content": [{"type": "output_text", "text": item["content"], "annotations": list[Any]()}]}


def _whole(items: Sequence[Mapping[str, Any]]) -> bytes:
    response = {"object": "response", "status": "completed", "output": items}
    return orjson.dumps({"type": "antiphon.whole_response", "response": response})
