"""`kind = "python"`: a function of an installed package.

    async def lookup(arguments: dict[str, Any], context: ToolContext) -> str: ...

It may be synchronous too, and then runs in a thread. It gives a string, or anything that is JSON. If its first
parameter is annotated with a pydantic model, that is the schema and the function gets an instance; otherwise the
configuration gives `parameters`. ToolError is how it tells the model what went wrong.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import typing
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from antiphon.entry_loading import load_entry
from antiphon.errors import StartupError, ToolError
from antiphon.ports import ToolContext, ToolOutput, ToolSpec

Function = Callable[[Any, ToolContext], Any]
GROUP = "antiphon.tools"

_MAX_THREADS = 32
"""Calls of one synchronous tool at the same time, counted until they really end: a hung one cannot be stopped."""


def load_function(tool: str, entry: str | None) -> Function:
    """entry: `package.module:function`, or None for the entry point of the tool's name.

    Raises StartupError.
    """
    function = load_entry("tool", tool, entry, GROUP)
    try:
        inspect.signature(function).bind({}, None)
    except (TypeError, ValueError) as error:
        raise StartupError(f"tool {tool!r}: its function must take (arguments, context)") from error
    return typing.cast(Function, function)


def model_of(function: Function) -> type[BaseModel] | None:
    """The pydantic model that the first parameter is annotated with."""
    try:
        hints = typing.get_type_hints(function)
    except Exception:
        return None
    first = next(iter(inspect.signature(function).parameters))
    hint = hints.get(first)
    return hint if isinstance(hint, type) and issubclass(hint, BaseModel) else None


class PythonTool:
    """One function."""

    def __init__(self, spec: ToolSpec, function: Function, model: type[BaseModel] | None = None) -> None:
        self.spec = spec
        self._function = function
        self._model = model
        self._asynchronous = inspect.iscoroutinefunction(function)
        self._threads = 0

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Raises ToolError, and whatever the function raises."""
        given = self._typed(arguments)
        try:
            made = await (
                self._function(given, context) if self._asynchronous else self._in_thread(given, context)
            )
        except BaseException as error:
            if isinstance(error, (Exception, asyncio.CancelledError, GeneratorExit)):
                raise
            # Left alone, SystemExit would end the whole server, and others of its kind the run's task.
            raise ToolError("The tool tried to end the process.") from error
        if isinstance(made, str):
            return ToolOutput(made)
        try:
            return ToolOutput(to_json(made, inf_nan_mode="null").decode())
        except PydanticSerializationError as error:
            raise ToolError("The tool returned something that is neither text nor JSON.") from error

    def _typed(self, arguments: dict[str, Any]) -> Any:
        if self._model is None:
            return arguments
        try:
            return self._model.model_validate(arguments)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ToolError(f"The arguments do not fit at {where or 'the top'}: {first['msg'][:300]}") from error

    async def _in_thread(self, given: Any, context: ToolContext) -> Any:
        """In a daemon thread: a pool would be blocked by hung calls, and would keep the process from ending."""
        if self._threads >= _MAX_THREADS:
            raise ToolError("Too many calls of this tool have not ended yet.")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def finish(value: Any, error: BaseException | None) -> None:
            self._threads -= 1
            if done.done():
                return
            if error is None:
                done.set_result(value)
            else:
                done.set_exception(error)

        def work() -> None:
            value: Any = None
            error: Exception | None = None
            try:
                value = self._function(given, context)
            except Exception as caught:
                error = caught if not isinstance(caught, StopIteration) else ToolError("The tool failed.")
            except BaseException:
                error = ToolError("The tool tried to end the process.")
            if not loop.is_closed():
                loop.call_soon_threadsafe(finish, value, error)

        self._threads += 1
        threading.Thread(target=work, name=f"tool-{self.spec.name}", daemon=True).start()
        return await done
