"""`antiphon/script:<name>`: plays scenario files, for tests, demos and developers of clients."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import orjson

from antiphon.errors import UpstreamError
from antiphon.ports import Clock, ModelCall
from antiphon.upstream.events import Answer, slices
from antiphon.upstream.pace import Pace, Sleep
from antiphon.upstream.prompt import Prompt, words_of
from antiphon.upstream.script_model import Refusal, Script, Step, Turn, load_script

PREFIX = "antiphon/script:"
PACKAGE_SCRIPTS = Path(__file__).parent / "scripts"

_NAME = re.compile(r"[A-Za-z0-9_-]+")


class ScriptUpstream:
    """Plays `<name>.toml` of the folders given; a later folder wins. Files are read again when they change."""

    name = "antiphon/script"
    tools: tuple[str, ...] = ()

    def __init__(
        self, clock: Clock, folders: Sequence[Path] = (PACKAGE_SCRIPTS,), sleep: Sleep = asyncio.sleep
    ) -> None:
        self._pace = Pace(clock, sleep)
        self._folders = tuple(folders)
        self._cache: dict[Path, tuple[tuple[int, int], Script]] = {}

    async def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        """See the port.

        Raises UpstreamError for an unknown or broken script and where the script says so, RuntimeError where
        the script crashes.
        """
        prompt = Prompt.read(call.body)
        script = await asyncio.to_thread(self._load, call.model)
        turn = script.turns[min(prompt.round, len(script.turns) - 1)]
        performance = _Performance(turn, Answer(call.model, self._pace.clock.now()), self._pace, prompt)
        async for batch in performance.play():
            yield batch

    async def models(self) -> Sequence[str]:
        """A name for each file that can be named, valid or not."""
        return await asyncio.to_thread(self._names)

    async def input_tokens(self, call: ModelCall) -> None:
        """What a call comes to is for the script to say, when it is played."""

    async def aclose(self) -> None:
        """Nothing is held."""

    def _names(self) -> list[str]:
        stems = {path.stem for folder in self._folders for path in folder.glob("*.toml")}
        return sorted(PREFIX + stem for stem in stems if _NAME.fullmatch(stem))

    def _load(self, model: str) -> Script:
        name = model.removeprefix(PREFIX)
        # The name is checked before it meets a path, so that it cannot lead out of the folders.
        paths = [f / f"{name}.toml" for f in reversed(self._folders)] if _NAME.fullmatch(name) else []
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            raise UpstreamError(f"There is no script {name!r}.", code="model_not_found", param="model")
        stat = path.stat()
        version = (stat.st_mtime_ns, stat.st_size)
        known = self._cache.get(path)
        if known is None or known[0] != version:
            known = self._cache[path] = version, load_script(path)
        return known[1]


class _Performance:
    """One turn of a script, being played."""

    def __init__(self, turn: Turn, answer: Answer, pace: Pace, prompt: Prompt) -> None:
        self._turn = turn
        self._answer = answer
        self._pace = pace
        self._prompt = prompt
        self._deltas = 0
        self._begun = False
        self._ended = False

    async def play(self) -> AsyncIterator[list[bytes]]:
        for step in self._turn.steps:
            if step.refuse is not None:
                raise _refusal(step.refuse)
            if not self._begun:
                self._begun = True
                yield self._answer.begin()
            if step.crash is not None:
                raise RuntimeError(step.crash)
            if step.delay_s is not None:
                await self._pace.sleep(step.delay_s)
            elif step.text is not None or step.reasoning is not None:
                async for batch in self._pace.at_rate(self._texts(step), step.rate):
                    yield batch
            elif batch := self._at_once(step):
                yield batch
            if self._ended:
                return
        yield [*([] if self._begun else self._answer.begin()), *self._end(None)]

    def _texts(self, step: Step) -> Iterator[list[bytes]]:
        say = self._answer.text if step.text is not None else self._answer.reasoning
        whole = step.text if step.text is not None else step.reasoning or ""
        for n in range(step.repeat):
            for piece in _pieces(whole.replace("{n}", str(n)), step.chunk):
                self._deltas += 1
                yield say(piece)

    def _at_once(self, step: Step) -> list[bytes]:
        """The events of a step that takes no time; sets `_ended` if it is the last."""
        if step.call is not None:
            given = step.call.arguments
            arguments = given if isinstance(given, str) else orjson.dumps(given).decode()
            return self._answer.call(step.call.name, arguments, step.call.call_id)
        if step.custom is not None:
            return self._answer.call(step.custom.name, step.custom.input, step.custom.call_id, custom=True)
        if step.event is not None:
            return [orjson.dumps(step.event)]
        self._ended = True
        if step.error is not None:
            return self._answer.fail(step.error.code, step.error.message)
        return self._end(step.incomplete) if step.incomplete is not None else []

    def _end(self, incomplete: str | None) -> list[bytes]:
        usage = self._turn.usage.model_dump() if self._turn.usage else self._prompt.usage(self._deltas)
        return self._answer.end(usage, incomplete)


def _pieces(text: str, chunk: str | int) -> list[str]:
    if isinstance(chunk, int):
        return slices(text, chunk)
    return [text] if chunk == "all" else words_of(text)


def _refusal(said: Refusal) -> UpstreamError:
    headers = {} if said.retry_after_s is None else {"retry-after": str(said.retry_after_s)}
    return UpstreamError(
        said.message, code=said.code, status=said.status, http_status=said.status, headers=headers
    )
