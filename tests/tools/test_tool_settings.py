"""`[[tool]]`, `[tools]` and `[web_search]`: what is refused, with which sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.errors import StartupError
from antiphon.settings import Settings
from antiphon.settings.loading import load_settings

HTTP = "[[tool]]\nname='a'\nkind='http'\nurl='http://x'\nparameters={type='object'}\n"


def load(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "antiphon.toml"
    path.write_text(text)
    return load_settings(path)[0]


def test_every_kind_of_tool_can_be_configured(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        HTTP
        + "headers_env={Authorization='KEY'}\n"
        + "[[tool]]\nname='b'\nkind='mcp'\ncommand='server'\nargs=['-x']\nenv_keys=['KEY']\n"
        + "[[tool]]\nname='c'\nkind='mcp'\nurl='https://x/mcp'\nallowed_tools=['d']\n"
        + "[[tool]]\nname='d'\nkind='python'\nentry='a.b:c'\nalways=true\nrequire_approval='always'\n"
        + "[tools]\nfan_out=2\n[web_search]\nprovider='brave'\nkey_env='KEY'\n",
    )
    assert [(tool.name, tool.kind) for tool in settings.tool] == [
        ("a", "http"), ("b", "mcp"), ("c", "mcp"), ("d", "python")
    ]  # fmt: skip
    assert (settings.tools.fan_out, settings.tools.timeout_s) == (2, 30)
    assert settings.tools.mcp_allowed_hosts == () and not settings.tools.mcp_allow_private
    assert settings.web_search.configured and not Settings().web_search.configured


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HTTP + HTTP, "two tools are named 'a'"),
        ("[[tool]]\nname='a'\nkind='http'\nparameters={}\n", "an http tool needs a url"),
        ("[[tool]]\nname='a'\nkind='http'\nurl='http://x'\n", "needs parameters or parameters_file"),
        (HTTP + "parameters_file='x'\n", "not both"),
        (HTTP + "entry='a:b'\n", "entry does not belong to kind 'http'"),
        ("[[tool]]\nname='a'\nkind='http'\nurl='ftp://x'\nparameters={}\n", "http:// or https://"),
        ("[[tool]]\nname='a'\nkind='mcp'\n", "either a url or a command"),
        ("[[tool]]\nname='a'\nkind='mcp'\nurl='http://x'\ncommand='y'\n", "either a url or a command"),
        ("[[tool]]\nname='a'\nkind='mcp'\nurl='http://x'\nargs=['y']\n", "need a command"),
        ("[[tool]]\nname='a'\nkind='mcp'\ncommand='x'\nheaders_env={A='B'}\n", "needs a url"),
        ("[[tool]]\nname='antiphon'\nkind='mcp'\ncommand='x'\n", "choose another name"),
        ("[[tool]]\nname='a b'\nkind='python'\n", "tool.0.name"),
        ("[[tool]]\nname='a'\nkind='shell'\n", "tool.0.kind"),
        ("[tools]\nfan_ot=2\n", "tools.fan_ot"),
        ("[web_search]\nkey_env='KEY'\n", "needs a url"),
        ("[web_search]\nprovider='other'\n", "web_search.provider"),
    ],
)
def test_a_table_that_cannot_work_is_one_clear_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(StartupError) as caught:
        load(tmp_path, text)
    assert said in caught.value.message
    assert len(caught.value.message.splitlines()) == 2, "a heading and the line"


def test_variables_that_tools_name_are_no_unknown_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_SEARCH_KEY", "x")
    monkeypatch.setenv("ANTIPHON_LOOKUP_KEY", "x")
    load(
        tmp_path,
        HTTP
        + "headers_env={A='ANTIPHON_LOOKUP_KEY'}\n[web_search]\nurl='http://x'\nkey_env='ANTIPHON_SEARCH_KEY'\n",
    )
