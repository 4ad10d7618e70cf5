"""docs/governance.md: a server that has its configurations does what the page says."""

from __future__ import annotations

import hashlib
import re
import tomllib
from typing import Any

import httpx2
import pytest

from antiphon.core.loop_detection import LoopLimits
from antiphon.settings.loop import DetectionSettings
from tests.docs.test_documents import ROOT, _blocks
from tests.support.server import running_server

PAGE = ROOT / "docs" / "governance.md"


def tables() -> dict[str, Any]:
    """The page's configurations as one."""
    return {name: rows for text in _blocks(PAGE, "toml") for name, rows in tomllib.loads(text).items()}


def key(secret: str, role: str) -> dict[str, str]:
    return {"sha256": hashlib.sha256(secret.encode()).hexdigest(), "name": secret, "tenant": "acme", "role": role}


async def test_a_server_with_the_page_as_its_configuration_does_what_the_page_says() -> None:
    keys = (key("driver", "driver"), key("operator", "operator"))
    async with (
        running_server(auth="required", key=keys, **tables()) as server,
        httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=30) as http,
    ):

        def asking(who: str) -> dict[str, str]:
            return {"authorization": f"Bearer {who}"}

        named = {"model": "agent:reviewer", "input": "a pull request"}
        made = await http.post("/v1/responses", json=named, headers=asking("driver"))
        assert (made.status_code, made.json()["model"]) == (200, "antiphon/echo")
        assert "Review" not in made.text
        listed = (await http.get("/v1/agents", headers=asking("driver"))).json()["data"]
        assert "reviewer" in [agent["name"] for agent in listed]
        other = await http.post(
            "/v1/responses", json={"model": "antiphon/script:x", "input": "a"}, headers=asking("driver")
        )
        assert other.status_code in (403, 404), other.text
        used = (await http.get("/v1/usage", params={"by": "agent"}, headers=asking("operator"))).json()
        assert any(row["agent"] == "reviewer" and row["cost"] is not None for row in used["data"]), used
        assert (await http.post("/v1/admin/tenants/acme/pause", headers=asking("operator"))).status_code == 200
        refused = await http.post("/v1/responses", json=named, headers=asking("driver"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "tenant_paused")
        assert (await http.post("/v1/admin/tenants/acme/resume", headers=asking("operator"))).status_code == 200
        assert (await http.post("/v1/admin/stop", headers=asking("operator"))).status_code == 403


@pytest.mark.parametrize(("word", "limit"), [("fourth", "warn_at"), ("fifth", "force_at"), ("seventh", "halt_at")])
def test_the_numbers_of_the_loop_detector_are_its_defaults(word: str, limit: str) -> None:
    numbers = {"fourth": 4, "fifth": 5, "seventh": 7}
    limits: LoopLimits = DetectionSettings().limits
    assert re.search(rf"\b{word}\b", PAGE.read_text())
    assert getattr(limits, limit) == numbers[word]
