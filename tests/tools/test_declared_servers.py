"""MCP servers that a request names: who may be named, where connections go, and what becomes of credentials."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog

from antiphon.core.addresses import is_public
from antiphon.errors import RequestError
from antiphon.tools.declared import read_server
from tests.tools.running import call, headers_seen, http_program, named, notes_of, opened, toolbox
from tests.upstream.calling import FastClock

HOSTS = {"mcp_allowed_hosts": ["mcp.example.com", "*.example.org", "odd.example.net:8443"]}


def server(url: str = "https://mcp.example.com/mcp", **more: Any) -> dict[str, Any]:
    return {"type": "mcp", "server_label": "theirs", "server_url": url, **more}


async def refusal(*declared: dict[str, Any], **tools: Any) -> RequestError:
    async with toolbox(tools={**HOSTS, **tools}) as box:
        with pytest.raises(RequestError) as caught:
            box.check(declared)
        return caught.value


@pytest.mark.parametrize(
    "url",
    [
        "https://mcp.example.com/mcp",
        "https://MCP.example.com:443/",
        "https://a.example.org/x?y=1",
        "https://a.b.example.org/",
        "https://odd.example.net:8443/mcp",
    ],
)
async def test_a_host_on_the_list_may_be_named(url: str) -> None:
    async with toolbox(tools=HOSTS) as box:
        box.check([server(url)])


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://evil.example.com/", "tools.mcp_allowed_hosts"),
        ("https://mcp.example.com.evil.net/", "tools.mcp_allowed_hosts"),
        ("https://example.org/", "tools.mcp_allowed_hosts"),
        ("https://evilexample.org/", "tools.mcp_allowed_hosts"),
        ("https://mcp.example.com:8443/", "tools.mcp_allowed_hosts"),
        ("https://odd.example.net/", "tools.mcp_allowed_hosts"),
        ("https://127.0.0.1/", "tools.mcp_allowed_hosts"),
        ("http://mcp.example.com/", "https://"),
        ("file:///etc/passwd", "https://"),
        ("https://ann:secret@mcp.example.com/", "authorization"),
        ("https://mcp.example.com\\@evil.net/", "not a URL"),
        ("https://mcp.example.com:port/", "not a URL"),
        ("https:///mcp", "not a URL"),
        ("https://[::1/", "not a URL"),
    ],
)
async def test_any_other_url_is_refused_before_the_run_begins(url: str, said: str) -> None:
    error = await refusal(server(url))
    assert (error.status, error.code, error.param) == (400, "invalid_request", "tools")
    assert said in error.message and "secret" not in error.message


async def test_without_a_list_no_host_may_be_named() -> None:
    assert "tools.mcp_allowed_hosts" in (await refusal(server(), mcp_allowed_hosts=[])).message


async def test_without_tls_only_where_the_operator_allows_it() -> None:
    async with toolbox(tools={**HOSTS, "mcp_allow_http": True}) as box:
        box.check([server("http://mcp.example.com/mcp")])


@pytest.mark.parametrize("key", ["connector_id", "tunnel_id"])
async def test_what_only_the_vendor_has_is_refused_by_name(key: str) -> None:
    error = await refusal({"type": "mcp", "server_label": "theirs", key: "x"})
    assert (error.status, error.code) == (400, "unsupported_parameter") and key in error.message


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ({"server_label": None}, "server_label"),
        ({"server_label": "a b"}, "server_label"),
        ({"server_label": "antiphon"}, "belongs to a server of ours"),
        ({"server_url": None}, "no MCP server 'theirs' here"),
        ({"server_url": None, "authorization": "t0ken"}, "need a server_url"),
        ({"server_url": 5}, "must be a string"),
        ({"authorization": "a\nb"}, "authorization is not valid"),
        ({"authorization": 5}, "authorization is not valid"),
        ({"headers": {"x": "a\r\nhost: b"}}, "not valid HTTP"),
        ({"headers": {"x y": "a"}}, "not valid HTTP"),
        ({"headers": ["x"]}, "must be an object"),
        ({"headers": {"Host": "evil"}}, "cannot be set"),
        ({"headers": {"Mcp-Session-Id": "1"}}, "cannot be set"),
        ({"headers": {"Authorization": "a"}, "authorization": "b"}, "given twice"),
        ({"allowed_tools": "echo"}, "list of names"),
        ({"allowed_tools": {"tool_names": [1]}}, "list of names"),
        ({"allowed_tools": {"read_only": "yes"}}, "read_only"),
        ({"require_approval": "sometimes"}, "always, never"),
        ({"require_approval": {"perhaps": {}}}, "always, never"),
    ],
)
async def test_a_tool_that_can_never_work_is_refused_with_the_reason(tool: dict[str, Any], said: str) -> None:
    error = await refusal({**server(), **tool})
    assert said in error.message and error.status == 400
    assert "t0ken" not in error.message


async def test_two_servers_with_one_label_are_refused() -> None:
    assert "Two MCP servers" in (await refusal(server(), server("https://a.example.org/"))).message


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
        "224.0.0.1", "localhost", "",
        "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1",
        "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe",
    ],
)  # fmt: skip
def test_these_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_these_addresses_are_public(address: str) -> None:
    assert is_public(address)


class Names:
    """A name service that gives each time the next answer."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::ffff:192.168.0.1"]])
async def test_a_public_name_that_leads_to_a_private_address_is_not_connected_to(addresses: list[str]) -> None:
    names = Names(addresses)
    async with toolbox(resolve=names, tools=HOSTS) as box, opened(box, server()) as tools:
        (one,) = tools.lists
    assert (
        one.error == "MCP server 'theirs': its host name leads to an address that is not on the public internet."
    )


async def test_a_name_nobody_knows_is_an_error_of_the_list() -> None:
    async def nobody(host: str, port: int) -> Sequence[str]:
        raise OSError("no such host")

    async with toolbox(resolve=nobody, tools=HOSTS) as box, opened(box, server()) as tools:
        assert "not known" in (tools.lists[0].error or "")


def local(port: int, **more: Any) -> dict[str, Any]:
    """Settings under which a test's server may be named: as mcp.test, which only our own resolver knows."""
    return {
        "mcp_allowed_hosts": [f"mcp.test:{port}"],
        "mcp_allow_http": True,
        "mcp_allow_private": True,
        **more,
    }


async def test_the_connection_goes_to_the_address_that_was_checked_whatever_the_name_says_later(
    tmp_path: Path,
) -> None:
    names = Names(["127.0.0.1"], ["192.0.2.1"])
    notes = tmp_path / "notes"
    async with http_program(notes) as port, toolbox(resolve=names, tools=local(port)) as box:
        async with opened(box, server(f"http://mcp.test:{port}/mcp")) as tools:
            assert (await call(named(tools)["echo"], {"text": "hi"})).output == "hi"
    assert names.asked == [("mcp.test", port)], "asked once, for list and call"
    assert {headers["host"] for headers in headers_seen(notes)} == {f"mcp.test:{port}"}


async def test_the_next_address_is_tried_where_one_does_not_answer(tmp_path: Path) -> None:
    names = Names(["127.0.0.2", "127.0.0.1"])
    async with http_program(tmp_path / "notes") as port, toolbox(resolve=names, tools=local(port)) as box:
        async with opened(box, server(f"http://mcp.test:{port}/mcp")) as tools:
            assert tools.lists[0].error is None


async def test_a_redirect_to_another_place_is_not_followed(tmp_path: Path) -> None:
    notes, elsewhere = tmp_path / "notes", tmp_path / "elsewhere"
    async with http_program(notes) as port, http_program(elsewhere) as other:
        async with toolbox(resolve=Names(["127.0.0.1"]), tools=local(port)) as box:
            where = {"x-redirect": f"http://127.0.0.1:{other}/mcp"}
            async with opened(box, server(f"http://mcp.test:{port}/mcp", headers=where)) as tools:
                assert "not followed" in (tools.lists[0].error or "")
    assert headers_seen(notes) and not elsewhere.exists()


async def test_credentials_go_to_the_server_and_nowhere_else(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with structlog.testing.capture_logs() as lines:
        async with http_program(notes) as port, toolbox(resolve=Names(["127.0.0.1"]), tools=local(port)) as box:
            declared = server(
                f"http://mcp.test:{port}/mcp", authorization="t0ken-of-ann", headers={"X-Org": "org-17"}
            )
            async with opened(box, declared) as tools:
                echo = named(tools)["echo"]
                assert (await call(echo, {"text": "t0ken-of-ann"})).output == "[secret]"
                shown = [
                    repr(echo.spec),
                    repr(vars(echo)),
                    repr(tools.lists),
                    repr(vars(box)),
                    repr(vars(box._cache)),
                ]
    assert {(h["authorization"], h["x-org"]) for h in headers_seen(notes)} == {("Bearer t0ken-of-ann", "org-17")}
    assert not [text for text in [*shown, repr(lines)] if "t0ken" in text or "org-17" in text]


async def test_a_credential_in_the_query_goes_to_the_server_and_nowhere_else(tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as lines:
        async with http_program(tmp_path / "notes") as port:
            async with toolbox(resolve=Names(["127.0.0.1"]), tools=local(port)) as box:
                shown: list[str] = []
                for token in ("t0ken-of-ann", "t0ken-of-bob"):
                    declared = server(f"http://mcp.test:{port}/mcp?org=acme&api_key={token}%2B")
                    shown.append(repr(read_server(declared, box._settings)))
                    async with opened(box, declared) as tools:
                        echo = named(tools)["echo"]
                        assert (await call(echo, {"text": f"{token}+"})).output == "[secret]"
                        shown += [repr(vars(echo)), repr(tools.lists), repr(vars(box._cache))]
                assert len(box._cache._lists) == 2, "a list is kept by credential"
    assert not [text for text in [*shown, repr(lines)] if "t0ken" in text]
    assert {headers["query"] for headers in headers_seen(tmp_path / "notes")} == {
        "org=acme&api_key=t0ken-of-ann%2B",
        "org=acme&api_key=t0ken-of-bob%2B",
    }


async def test_a_list_is_kept_by_credential_and_tenant(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with http_program(notes) as port:
        async with toolbox(clock=FastClock(), resolve=Names(["127.0.0.1"]), tools=local(port)) as box:
            for token, tenant, lists in (
                ("ann-token", "acme", 1),
                ("ann-token", "acme", 1),
                ("bob-token", "acme", 2),
                ("ann-token", "other", 3),
                (None, "acme", 4),
            ):
                more = {} if token is None else {"authorization": token}
                async with opened(box, server(f"http://mcp.test:{port}/mcp", **more), tenant=tenant) as tools:
                    assert len(named(tools)) == 9
                assert len(notes_of(notes, "list")) == lists


async def test_with_a_kept_list_the_call_still_works_and_uses_the_callers_own_credential(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with http_program(notes) as port, toolbox(resolve=Names(["127.0.0.1"]), tools=local(port)) as box:
        declared = server(f"http://mcp.test:{port}/mcp", authorization="ann-token")
        for _ in range(2):
            async with opened(box, declared) as tools:
                assert (await call(named(tools)["echo"], {"text": "hi"})).output == "hi"
    methods = [(headers.get("mcp-method"), headers["authorization"]) for headers in headers_seen(notes)]
    assert methods.count(("tools/list", "Bearer ann-token")) == 1
    assert methods.count(("tools/call", "Bearer ann-token")) == 2


async def test_its_calls_need_approval_and_have_side_effects_unless_the_request_trusts_it(tmp_path: Path) -> None:
    async def asked(**more: Any) -> set[str]:
        declared = server(f"http://mcp.test:{port}/mcp", allowed_tools=["echo", "look"], **more)
        async with opened(box, declared) as tools:
            assert all(tool.spec.side_effects for tool in named(tools).values()), "its own word is not believed"
            return {name for name, tool in named(tools).items() if tool.spec.needs_approval}

    async with http_program(tmp_path / "notes") as port:
        async with toolbox(resolve=Names(["127.0.0.1"]), tools=local(port)) as box:
            assert await asked() == {"echo", "look"}
            assert await asked(require_approval="never") == set()
            assert await asked(require_approval={"never": {"tool_names": ["look"]}}) == {"echo"}
            assert await asked(require_approval={"never": {"read_only": True}}) == {"echo"}


async def test_a_failing_server_spoils_neither_the_other_lists_nor_the_run(tmp_path: Path) -> None:
    async with http_program(tmp_path / "notes") as port:
        tools = {**local(port), "mcp_allowed_hosts": [f"mcp.test:{port}", "mcp.test:1"]}
        async with toolbox(resolve=Names(["127.0.0.1"]), tools=tools) as box:
            good = server(f"http://mcp.test:{port}/mcp")
            bad = {**server("http://mcp.test:1/mcp"), "server_label": "gone"}
            async with opened(box, good, bad) as opened_tools:
                found = {one.server_label: one.error for one in opened_tools.lists}
    assert found["theirs"] is None and "could not be reached" in (found["gone"] or "")
