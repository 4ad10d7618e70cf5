"""`antiphon/echo`: the user's last text, back word by word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from antiphon.ports import Clock, ModelCall
from antiphon.upstream.events import Answer
from antiphon.upstream.prompt import Prompt, words_of

_BATCH_WORDS = 32
"""Words between two breaths of the loop."""


class EchoUpstream:
    """Answers at once, without network and without delay."""

    name = "antiphon/echo"
    tools: tuple[str, ...] = ()

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        """See the port. Raises UpstreamError for a body that is no JSON object."""
        prompt = Prompt.read(call.body)
        words = words_of(prompt.user_text) or [""]
        answer = Answer(call.model, self._clock.now())
        batch = answer.begin()
        for start in range(0, len(words), _BATCH_WORDS):
            for word in words[start : start + _BATCH_WORDS]:
                batch += answer.text(word)
            yield batch
            batch = []
            await asyncio.sleep(0)
        yield answer.end(prompt.usage(len(words)))

    async def models(self) -> Sequence[str]:
        """Its one name."""
        return [self.name]

    async def input_tokens(self, call: ModelCall) -> int:
        """Words, as its usage counts them. Raises UpstreamError."""
        return Prompt.read(call.body).usage(0)["input_tokens"]

    async def aclose(self) -> None:
        """Nothing is held."""
