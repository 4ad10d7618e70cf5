"""The examples do what they print, against a server of their own."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.sdk_processes import (
    NODE_FOLDER,
    ROOT,
    SCRIPT_S,
    clean_env,
    missing,
    need_node_sdks,
    need_python_sdks,
    run_process,
)
from tests.support.server import running_server

EXAMPLES = ROOT / "examples"
WHOLE = re.compile(r"--- whole: events 0 to \d+, none missing ---")
pytestmark = pytest.mark.clients


@pytest.fixture
async def env() -> AsyncIterator[dict[str, str]]:
    """What points an example at the test's server."""
    async with running_server() as server:
        yield {"ANTIPHON_URL": f"{server.url}/v1"}


async def output_of(command: list[str | Path], env: dict[str, str]) -> str:
    finished = await run_process(command, env=env)
    assert finished.code == 0, finished.stderr + finished.stdout
    return finished.stdout


def answer_of(output: str) -> str:
    """What the example printed beside its own remarks, put together again."""
    return "".join(line for line in output.split("\n") if not line.startswith("---"))


async def test_the_python_chat_comes_back_and_misses_nothing(env: dict[str, str]) -> None:
    output = await output_of([need_python_sdks(), EXAMPLES / "python" / "chat.py", "one two three"], env)
    assert "I heard: one two three." in answer_of(output)
    assert "the connection is gone after event" in output
    assert WHOLE.search(output)


async def test_the_python_agent_answers_with_the_result_of_its_tool(env: dict[str, str]) -> None:
    output = await output_of([need_python_sdks(), EXAMPLES / "python" / "tools.py"], env)
    assert "--- get_weather(" in output
    assert "drizzle" in answer_of(output)
    assert "is completed ---" in output


async def test_a_held_call_of_one_process_is_answered_by_another(env: dict[str, str]) -> None:
    script = [need_python_sdks(), EXAMPLES / "python" / "held_tool.py"]
    creator = await asyncio.create_subprocess_exec(
        *map(str, script), env={**clean_env(), **env}, stdout=asyncio.subprocess.PIPE
    )
    assert creator.stdout is not None
    try:
        async with asyncio.timeout(SCRIPT_S):
            before = (await creator.stdout.readuntil(b"--- waits for ask_editor(")).decode()
            run_id = re.findall(r"resp_\w+", before)[0]
            answered = await output_of([*script, "answer", run_id, "Print it."], env)
            after = (await creator.stdout.read()).decode()
            assert await creator.wait() == 0
    finally:
        if creator.returncode is None:
            creator.kill()
    assert "--- response.inject.created ---" in answered
    for output in (answered, after):
        assert "was answered: Print it. ---" in output
        assert "It says: Print it." in output


async def test_the_node_chat_comes_back_and_misses_nothing(env: dict[str, str], tmp_path: Path) -> None:
    node = need_node_sdks()
    shutil.copytree(EXAMPLES / "node", tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    (tmp_path / "node_modules").symlink_to(NODE_FOLDER / "node_modules")
    output = await output_of([node, tmp_path / "chat.mjs", "one two three"], env)
    assert "I heard: one two three." in answer_of(output)
    assert WHOLE.search(output)


async def test_curl_creates_streams_comes_back_and_cancels(env: dict[str, str]) -> None:
    if shutil.which("curl") is None:
        missing("curl", "install it")
    output = await output_of(["sh", EXAMPLES / "curl.sh"], env)
    assert output.count("data: [DONE]") == 2
    resumed = output.split("--- come back")[1].split("--- a run that is")[0]
    numbers = [json.loads(line)["sequence_number"] for line in re.findall(r"^data: (\{.*)$", resumed, re.M)]
    assert numbers == list(range(4, numbers[-1] + 1))
    assert output.strip().endswith('"cancelled"')


async def test_the_python_snippet_of_the_readme_prints_the_echo(env: dict[str, str]) -> None:
    assert await output_of([need_python_sdks(), "-c", snippets_of_the_readme(env)[0]], env) == "hello\n"


async def test_the_tool_snippet_of_the_readme_goes_on_from_the_first_and_prints_what_it_says(
    env: dict[str, str],
) -> None:
    first, tools = snippets_of_the_readme(env)
    output = await output_of([need_python_sdks(), "-c", f"{first}\n{tools}"], env)
    said = re.findall(r"# (\[.*\])$", tools, re.MULTILINE)
    assert output.splitlines()[1:] == said


def snippets_of_the_readme(env: dict[str, str]) -> list[str]:
    """Its Python, pointed at the test's server."""
    snippets = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    pointed = [snippet.replace("http://127.0.0.1:8787/v1", env["ANTIPHON_URL"]) for snippet in snippets]
    assert pointed[0] != snippets[0]
    return pointed


def test_the_node_example_asks_for_the_versions_that_are_tested() -> None:
    asked, tested = (
        json.loads((folder / "package.json").read_text())["dependencies"]
        for folder in (EXAMPLES / "node", NODE_FOLDER)
    )
    assert asked == {name: tested[name] for name in asked}
