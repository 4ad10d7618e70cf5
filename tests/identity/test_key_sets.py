"""Key sets: believed for a while, read again for a key they lack, and never oftener than every few seconds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from antiphon.errors import AntiphonError, StartupError
from antiphon.governance.identity.build import Verifier
from antiphon.governance.identity.key_sets import KeySet, file_reader, url_reader
from antiphon.settings.identity import JwtSettings
from tests.http.calling import until
from tests.identity.signing import OTHER_RSA_KEY as OTHER_RSA
from tests.identity.signing import RSA_KEY as RSA
from tests.identity.signing import TurnedClock, jwk, key_set


def write_key_set(folder: Path, *keys: dict[str, Any]) -> Path:
    path = folder / "jwks.json"
    path.write_bytes(key_set(*keys))
    return path


class Provider:
    """Gives what `answer` is: a key set, or an error."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.answer: bytes | Exception = key_set(*keys)
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self) -> bytes:
        self.asked += 1
        await self.may_answer.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def key_set_of(provider: Provider) -> tuple[KeySet, TurnedClock]:
    clock = TurnedClock()
    return KeySet("RS256", provider, clock, 600.0), clock


async def test_it_is_read_once_for_all_who_ask_at_once_and_then_remembered() -> None:
    provider = Provider(jwk(RSA, "one"))
    keys, clock = key_set_of(provider)
    found = await asyncio.gather(*(keys.find("one") for _ in range(20)))
    assert all(key is not None and key.key_id == "one" for key in found)
    clock.at += 299
    assert await keys.find("one") is not None
    assert provider.asked == 1


async def test_a_new_key_is_found_by_its_id_and_unknown_ids_do_not_make_us_ask_all_the_time() -> None:
    provider = Provider(jwk(RSA, "one"))
    keys, clock = key_set_of(provider)
    assert await keys.find("one") is not None
    provider.answer = key_set(jwk(RSA, "one"), jwk(OTHER_RSA, "two"))
    assert await keys.find("two") is None, "read a moment ago"
    clock.at += 6
    assert await keys.find("two") is not None
    for number in range(50):
        assert await keys.find(f"made up {number}") is None
    assert provider.asked == 2
    clock.at += 6
    await keys.find("made up")
    assert provider.asked == 3


async def test_a_key_that_was_taken_out_counts_no_more_after_half_the_time() -> None:
    provider = Provider(jwk(RSA, "one"))
    keys, clock = key_set_of(provider)
    assert await keys.find("one") is not None
    provider.answer = key_set(jwk(OTHER_RSA, "two"))
    clock.at += 301
    await keys.find("one")  # has it read again
    await until(lambda: provider.asked == 2)
    assert await keys.find("one") is None


async def test_nobody_waits_for_a_slow_set_while_there_is_one_and_those_without_a_key_wait_together() -> None:
    provider = Provider(jwk(RSA, "one"))
    keys, clock = key_set_of(provider)
    assert await keys.find("one") is not None
    provider.may_answer.clear()
    clock.at += 301
    for _ in range(20):
        assert await keys.find("one") is not None, "the old ones count while others are fetched"
    waiting = [asyncio.create_task(keys.find("two")) for _ in range(20)]
    await until(lambda: provider.asked == 2)
    assert not any(task.done() for task in waiting)
    provider.answer = key_set(jwk(RSA, "one"), jwk(OTHER_RSA, "two"))
    provider.may_answer.set()
    assert all(key is not None for key in await asyncio.gather(*waiting))
    assert provider.asked == 2
    clock.at += 301
    provider.may_answer.clear()
    await keys.find("one")
    await keys.aclose()  # also while it is read


@pytest.mark.parametrize("trouble", [OSError("away"), ValueError("no key set"), httpx2.ConnectError("refused")])
async def test_while_it_cannot_be_read_the_old_keys_count_as_long_as_they_are_believed(trouble: Exception) -> None:
    provider = Provider(jwk(RSA, "one"))
    keys, clock = key_set_of(provider)
    assert await keys.find("one") is not None
    provider.answer = trouble
    clock.at += 590
    assert await keys.find("one") is not None
    clock.at += 20
    with pytest.raises(AntiphonError) as caught:
        await keys.find("one")
    assert caught.value.code == "identity_unavailable"
    provider.answer = key_set(jwk(RSA, "one"))
    clock.at += 6
    assert await keys.find("one") is not None


async def test_members_that_are_no_keys_of_ours_are_passed_over() -> None:
    odd = [
        {"kty": "XX"},
        {},
        {"kty": "RSA", "n": "!", "e": "AQAB"},
        {"kty": "RSA", "n": 7, "e": []},
        7,
        jwk(RSA, "one"),
    ]
    keys, _ = key_set_of(Provider(*odd))  # type: ignore[arg-type]
    assert await keys.find("one") is not None
    assert await keys.load() == 1


async def serve(answer: bytes) -> tuple[asyncio.Server, str]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/jwks.json"


@pytest.mark.parametrize(
    ("head", "body", "said"),
    [
        (b"200 OK", key_set(jwk(RSA, "one")), None),
        (b"404 Not Found", b"", "404"),
        (b"302 Found\r\nlocation: http://127.0.0.1:1/", b"", "302"),
        (b"200 OK", b" " * 1_200_000, "more than"),
        (b"200 OK", b"<html>", None),
    ],
    ids=["keys", "missing", "redirect", "too large", "a page"],
)
async def test_from_an_address_a_bounded_answer_is_read_and_no_redirect_followed(
    head: bytes, body: bytes, said: str | None
) -> None:
    server, url = await serve(b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (head, len(body), body))
    async with server, httpx2.AsyncClient(trust_env=False) as client:
        read = url_reader(client, url)
        if said is None:
            assert await read() == body
        else:
            with pytest.raises(ValueError, match=said):
                await read()


async def test_a_file_has_to_be_right_at_the_start_and_an_address_may_be_away(tmp_path: Path) -> None:
    def verifier(**given: Any) -> Verifier:
        return Verifier(JwtSettings(**given), TurnedClock(), tmp_path / "antiphon.toml")

    write_key_set(tmp_path, jwk(RSA, "one"))
    await verifier(jwks_file="jwks.json").start()
    assert await verifier(jwks_file="jwks.json").examine() == "1 keys"
    for text, said in ((b"{}", "no JSON Web Key Set"), (b"\xff", "cannot be read"), (key_set(), "holds no key")):
        (tmp_path / "bad.json").write_bytes(text)
        with pytest.raises(StartupError, match=said):
            await verifier(jwks_file="bad.json").start()
    with pytest.raises(StartupError, match="cannot be read"):
        await verifier(jwks_file="nowhere.json").start()
    away = verifier(jwks_url="http://127.0.0.1:1/", issuer="i", audience="a")
    await away.start()
    with pytest.raises(StartupError, match="cannot be read"):
        await away.examine()
    await away.aclose()


async def test_a_secret_comes_from_a_variable_that_is_there_and_long_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = JwtSettings(algorithm="HS256", secret_env="TOKEN_SECRET")
    for value, said in ((None, "is not set"), ("short", "is shorter than 32 bytes")):
        monkeypatch.delenv("TOKEN_SECRET", raising=False)
        if value is not None:
            monkeypatch.setenv("TOKEN_SECRET", value)
        with pytest.raises(StartupError, match=f"TOKEN_SECRET, which {said}"):
            Verifier(settings, TurnedClock(), None)
    monkeypatch.setenv("TOKEN_SECRET", "x" * 32)
    assert await Verifier(settings, TurnedClock(), None).keys.find(None) == b"x" * 32


async def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path, clock = write_key_set(tmp_path, jwk(RSA, "one")), TurnedClock()
    keys = KeySet("RS256", file_reader(path), clock, 10.0)
    assert await keys.find("one") is not None
    write_key_set(tmp_path, jwk(OTHER_RSA, "two"))
    clock.at += 6
    assert await keys.find("two") is not None and await keys.find("one") is None
