"""Scenario files: what each step does, how turns follow each other, and what a wrong file says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import UpstreamError
from antiphon.ports import ModelCall
from antiphon.upstream.script import PACKAGE_SCRIPTS, PREFIX, ScriptUpstream
from antiphon.upstream.script_model import load_script
from tests.upstream.calling import FastClock, events_of, kinds, model_call, text_in

PACKAGED = sorted(path.stem for path in PACKAGE_SCRIPTS.glob("*.toml"))


class Stage:
    """A folder for scripts and an upstream that plays them without waiting."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = FastClock()
        self.upstream = ScriptUpstream(self.clock, [PACKAGE_SCRIPTS, folder], self.clock.sleep)

    def write(self, content: str, name: str = "s") -> None:
        (self.folder / f"{name}.toml").write_text(content, encoding="utf-8")

    def steps(self, *steps: str, head: str = "[[turns]]") -> None:
        self.write("\n".join([head, *(f"[[turns.steps]]\n{step}" for step in steps)]))

    async def play(self, name: str = "s", items: Any = "hello") -> list[dict[str, Any]]:
        return await events_of(self.upstream, call(name, items))


def call(name: str, items: Any = "hello") -> ModelCall:
    return model_call({"input": items}, model=PREFIX + name)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def items_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = events[-1]["response"]["output"]
    return output


# Steps


@pytest.mark.parametrize(
    ("chunk", "deltas"),
    [('"word"', ["漢 ", "🚀b ", "c"]), ('"all"', ["漢 🚀b c"]), ("2", ["漢 ", "🚀b", " c"])],
)
async def test_text_is_cut_as_told_and_adds_up(stage: Stage, chunk: str, deltas: list[str]) -> None:
    stage.steps(f'text = "漢 🚀b c"\nchunk = {chunk}')
    events = await stage.play()
    assert [e["delta"] for e in events if "delta" in e] == deltas
    assert items_of(events)[0]["content"][0]["text"] == "漢 🚀b c"


async def test_repetitions_are_counted_and_paced_without_drift(stage: Stage) -> None:
    stage.steps('text = "w{n} "\nrate = 20\nrepeat = 200')
    events = await stage.play()
    assert text_in(events) == "".join(f"w{n} " for n in range(200))
    assert stage.clock.at - 1000 == pytest.approx(199 / 20)


async def test_texts_in_a_row_are_one_message_and_delays_do_not_cut_it(stage: Stage) -> None:
    stage.steps('text = "a "', "delay_s = 2.5", 'text = "b"')
    events = await stage.play()
    assert [item["content"][0]["text"] for item in items_of(events)] == ["a b"]
    assert stage.clock.slept == [2.5]


async def test_reasoning_calls_and_text_become_items_in_order(stage: Stage) -> None:
    stage.steps(
        'reasoning = "hm"',
        'call = { name = "f", arguments = { a = [1, true] }, call_id = "x" }',
        'call = { name = "g", arguments = "{broken" }',
        'custom = { name = "h", input = "free" }',
        'text = "done"',
    )
    items = items_of(await stage.play())
    assert [i["type"] for i in items] == [
        "reasoning",
        "function_call",
        "function_call",
        "custom_tool_call",
        "message",
    ]
    assert (items[1]["call_id"], items[1]["arguments"]) == ("x", '{"a":[1,true]}')
    assert items[2]["arguments"] == "{broken"
    assert items[3]["input"] == "free"


async def test_an_error_ends_with_response_failed(stage: Stage) -> None:
    stage.steps('text = "a"', 'error = { code = "c", message = "m" }', 'text = "never"')
    events = await stage.play()
    assert kinds(events)[-1] == "response.failed"
    assert events[-1]["response"]["error"] == {"code": "c", "message": "m"}
    assert text_in(events) == "a"


async def test_incomplete_ends_with_its_reason(stage: Stage) -> None:
    stage.steps('text = "a"', 'incomplete = "max_output_tokens"')
    response = (await stage.play())[-1]["response"]
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


async def test_a_cut_ends_without_a_terminal_event(stage: Stage) -> None:
    stage.steps('text = "a"', "cut = true")
    assert kinds(await stage.play())[-1] == "response.output_text.delta"


async def test_a_refusal_as_first_step_shows_nothing_before_it(stage: Stage) -> None:
    stage.steps('refuse = { status = 429, code = "c", message = "m", retry_after_s = 3 }')
    seen: list[bytes] = []
    with pytest.raises(UpstreamError) as caught:
        async for batch in stage.upstream.stream(call("s")):
            seen += batch
    assert seen == []
    error = caught.value
    assert (error.status, error.code, error.message, error.headers) == (429, "c", "m", {"retry-after": "3"})


async def test_a_crash_is_no_error_of_ours(stage: Stage) -> None:
    stage.steps('text = "a"', 'crash = "boom"')
    with pytest.raises(RuntimeError, match="boom"):
        await stage.play()


async def test_an_event_goes_out_as_it_stands(stage: Stage) -> None:
    stage.steps('event = { type = "odd", x = [1] }')
    assert {"type": "odd", "x": [1]} in await stage.play()


async def test_usage_is_as_told_or_counted(stage: Stage) -> None:
    stage.steps('text = "a b c"')
    counted = (await stage.play(items="one two"))[-1]["response"]["usage"]
    assert (counted["input_tokens"], counted["output_tokens"]) == (2, 3)
    stage.steps(
        'text = "a"', head="[[turns]]\nusage = { input_tokens = 7, output_tokens = 8, reasoning_tokens = 5 }"
    )
    told = (await stage.play())[-1]["response"]["usage"]
    assert (told["input_tokens"], told["output_tokens_details"]["reasoning_tokens"], told["total_tokens"]) == (
        7,
        5,
        15,
    )


async def test_a_turn_without_steps_is_an_empty_answer(stage: Stage) -> None:
    stage.write("[[turns]]")
    assert kinds(await stage.play()) == ["response.created", "response.in_progress", "response.completed"]


# Turns

USER = {"role": "user", "content": "x"}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "o"}
CUSTOM = {"type": "custom_tool_call_output", "call_id": "c", "output": "o"}


@pytest.mark.parametrize(
    ("items", "turn"),
    [
        ("plain", "first"),
        ([USER], "first"),
        ([USER, CALL, OUTPUT], "second"),
        ([USER, CALL, CALL, OUTPUT, OUTPUT], "second"),
        ([USER, CALL, CUSTOM], "second"),
        ([USER, CALL, OUTPUT, CALL, OUTPUT], "third"),
        ([USER, CALL, OUTPUT, CALL, OUTPUT, CALL, OUTPUT], "third"),
        ([USER, CALL, OUTPUT, USER], "first"),
        ([USER, CALL, OUTPUT, {"role": "assistant", "content": "y"}, USER, CALL, OUTPUT], "second"),
        ([OUTPUT], "second"),
    ],
)
async def test_each_answer_of_tools_plays_the_next_turn(stage: Stage, items: Any, turn: str) -> None:
    stage.write("".join(f'[[turns]]\n[[turns.steps]]\ntext = "{name}"\n' for name in ("first", "second", "third")))
    assert text_in(await stage.play(items=items)) == turn


# Files


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[[turns]]\n[[turns.steps]]\ntexts = 'x'", "turns.0.steps.0.texts"),
        ("[[turns]]\n[[turns.steps]]\nrate = 1", "exactly one of"),
        ("[[turns]]\n[[turns.steps]]\ntext = 'x'\ncut = true", "text.*cut"),
        ("[[turns]]\n[[turns.steps]]\ncut = true\nrate = 3", "belong to text"),
        ("[[turns]]\n[[turns.steps]]\ntext = 'x'\nchunk = 0", "turns.0.steps.0.chunk"),
        ("[[turns]]\n[[turns.steps]]\ntext = 'x'\nrate = -1", "turns.0.steps.0.rate"),
        ("[[turns]]\n[[turns.steps]]\nrefuse = { status = 200 }", "turns.0.steps.0.refuse.status"),
        ("[[turns]]\n[[turns.steps]]\ncall = { arguments = {} }", "turns.0.steps.0.call.name"),
        ("colour = 1\n[[turns]]", "colour"),
        ("", "turns"),
        ("turns = []", "turns"),
        ("[[turns]", "line 1"),
    ],
)
async def test_a_wrong_file_is_an_error_that_names_file_and_key(stage: Stage, content: str, words: str) -> None:
    stage.write(content)
    with pytest.raises(UpstreamError, match=words) as caught:
        await stage.play()
    assert "s.toml" in caught.value.message


async def test_a_file_that_is_no_utf8_is_an_error_that_names_it(stage: Stage) -> None:
    (stage.folder / "s.toml").write_bytes(b"description = '\xff'")
    with pytest.raises(UpstreamError, match=r"s\.toml"):
        await stage.play()


@pytest.mark.parametrize(
    "name", ["none", "", "../secret", "a/b", "..", "s.toml", "s\x00", "s\n", "ß", "/etc/passwd"]
)
async def test_names_that_are_unknown_or_no_names_are_not_found(stage: Stage, name: str) -> None:
    (stage.folder.parent / "secret.toml").write_text("[[turns]]")
    with pytest.raises(UpstreamError) as caught:
        await stage.play(name)
    assert (caught.value.code, caught.value.status) == ("model_not_found", 404)


async def test_a_changed_file_is_read_again(stage: Stage) -> None:
    stage.steps('text = "one"')
    assert text_in(await stage.play()) == "one"
    stage.steps('text = "three"')
    assert text_in(await stage.play()) == "three"


async def test_a_later_folder_wins_and_every_folder_is_listed(stage: Stage) -> None:
    stage.write('[[turns]]\n[[turns.steps]]\ntext = "mine"', "slow")
    stage.write("[[turns]]", "extra")
    stage.write("[[turns]]", "not a name")
    assert text_in(await stage.play("slow")) == "mine"
    names = await stage.upstream.models()
    assert set(names) == {PREFIX + name for name in [*PACKAGED, "extra"]}


async def test_folders_that_do_not_exist_are_no_fault(tmp_path: Path) -> None:
    clock = FastClock()
    upstream = ScriptUpstream(clock, [tmp_path / "gone"], clock.sleep)
    assert list(await upstream.models()) == []


# The scripts we ship


@pytest.mark.parametrize("name", PACKAGED)
def test_every_script_of_the_package_is_valid_and_says_what_it_is_for(name: str) -> None:
    assert load_script(PACKAGE_SCRIPTS / f"{name}.toml").description


async def test_slow_and_burst_have_their_length_and_rate(stage: Stage) -> None:
    slow = await stage.play("slow")
    assert kinds(slow).count("response.output_text.delta") == 200
    assert stage.clock.at - 1000 == pytest.approx(10, abs=0.1)
    before = stage.clock.at
    burst = await stage.play("burst")
    assert kinds(burst).count("response.output_text.delta") == pytest.approx(1000, abs=20)
    assert stage.clock.at - before == pytest.approx(5, abs=0.1)
    assert {"漢字 ", "🚀 ", "👩‍💻 "} <= {e.get("delta") for e in burst}


async def test_tools_makes_two_calls_and_then_answers(stage: Stage) -> None:
    first = items_of(await stage.play("tools"))
    assert [item["type"] for item in first] == ["message", "function_call", "function_call"]
    assert len({item["call_id"] for item in first[1:]}) == 2
    second = items_of(await stage.play("tools", [USER, *first, OUTPUT, OUTPUT]))
    assert [item["type"] for item in second] == ["message"]


async def test_fail_cut_refuse_and_reasoning_do_what_they_say(stage: Stage) -> None:
    assert kinds(await stage.play("fail"))[-1] == "response.failed"
    assert kinds(await stage.play("cut"))[-1] == "response.output_text.delta"
    with pytest.raises(UpstreamError):
        await stage.play("refuse")
    assert [item["type"] for item in items_of(await stage.play("reasoning"))] == ["reasoning", "message"]
    assert stage.clock.slept.count(1.0) == 1
