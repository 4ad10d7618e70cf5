"""Lists in which some tools are not valid MCP. The SDK refuses the whole; here only the bad ones are left out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import structlog
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse, Tool
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream

log = structlog.get_logger(__name__)


class LenientReader:
    """The stream of a session's incoming messages; from `forgive` on bad tools are taken out of lists."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], label: str) -> None:
        self._inner = inner
        self._label = label
        self._version: str | None = None

    def forgive(self, version: str) -> None:
        """version: of the protocol, as it was agreed on."""
        self._version = version

    @property
    def forgiving(self) -> bool:
        return self._version is not None

    @property
    def last_context(self) -> Any:
        """What the SDK wants to know of some streams."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message, or what went wrong instead of one."""
        return await self._mended(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> LenientReader:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return await self._mended(await anext(self._inner))

    async def __aenter__(self) -> LenientReader:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> bool | None:
        return await self._inner.__aexit__(*raised)

    async def _mended(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        version = self._version
        if version is None or isinstance(item, Exception) or not isinstance(item.message, JSONRPCResponse):
            return item
        result = item.message.result
        listed = result.get("tools")
        if not isinstance(listed, list):
            return item
        # Not in the loop: there may be thousands.
        good = await asyncio.to_thread(lambda: [tool for tool in listed if _is_valid(tool, result, version)])
        if len(good) < len(listed):
            log.warning("mcp_tools_left_out", server_label=self._label, count=len(listed) - len(good))
            item.message.result = {**result, "tools": good}
        return item


def _is_valid(tool: Any, result: dict[str, Any], version: str) -> bool:
    try:
        validate_server_result("tools/list", version, {**result, "tools": [tool]})
        Tool.model_validate(tool, by_name=False)
    except ValidationError:
        return False
    return True
