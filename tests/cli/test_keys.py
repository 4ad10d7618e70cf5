"""`antiphon keys`: before the first start, beside a running server, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.running import Finished, antiphon
from tests.http.calling import get, http, until
from tests.identity.signing import SECRET, signed
from tests.support.server import running_server


async def keys(home: Path, *args: str, **env: str) -> Finished:
    return await antiphon(home, "keys", *args, "--data-dir", str(home / "data"), env=env)


async def listed(home: Path) -> list[dict[str, Any]]:
    done = await keys(home, "list", "--json")
    rows: list[dict[str, Any]] = json.loads(done.out)["data"]
    return rows


async def test_a_key_is_made_before_the_first_start_opens_the_door_and_is_taken_back_beside_the_server(
    tmp_path: Path,
) -> None:
    made = await keys(tmp_path, "create", "laptop", "--role", "viewer", "--user", "anna")
    secret = made.out.split()[0]
    assert made.status == 0 and secret.startswith("ak_") and len(secret) > 40
    settings: Any = {"auth": "required", "identity": {"reread_s": 0.1}}
    async with running_server(tmp_path / "data", **settings) as server, http(server, secret) as client:
        assert (await client.get("/v1/models")).status_code == 200
        assert (
            await client.post("/v1/responses", json={"model": "antiphon/echo", "input": "x"})
        ).status_code == 403
        (row,) = await listed(tmp_path)
        assert (row["name"], row["user"], row["role"], row["active"]) == ("laptop", "anna", "viewer", True)
        revoked = await keys(tmp_path, "revoke", row["id"])
        assert revoked.status == 0, revoked.err

        async def refused() -> bool:
            return (await client.get("/v1/models")).status_code == 401

        await until(refused)
        second = (await keys(tmp_path, "create", "phone")).out.split()[0]
        async with http(server, second) as phone:
            assert (await phone.get("/v1/models")).status_code == 200
        audit = await server.app.accounts.audit._writer.submit(
            lambda connection: connection.execute("SELECT action, principal FROM audit ORDER BY at").fetchall()
        )
        assert [tuple(entry) for entry in audit] == [
            ("key.create", "system:console"),
            ("key.revoke", "system:console"),
            ("key.create", "system:console"),
        ]


async def test_a_key_is_shown_once_and_is_nowhere_in_the_data(tmp_path: Path) -> None:
    secret = (await keys(tmp_path, "create", "ci", "--days", "30")).out.split()[0]
    (row,) = await listed(tmp_path)
    assert 29 * 86_400 < row["expires_at"] - row["created_at"] < 31 * 86_400
    shown = (await keys(tmp_path, "list")).out
    assert row["id"] in shown and "until" in shown and secret not in shown
    kept = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert row["id"].encode() in kept and secret.encode() not in kept


async def test_a_narrow_terminal_shows_every_name_whole(tmp_path: Path) -> None:
    name, user = "continuous-integration-of-the-website", "anna.of.the.very.long.name@example.org"
    await keys(tmp_path, "create", name, "--user", user)
    shown = (await keys(tmp_path, "list", COLUMNS="80")).out
    lines = [line for line in shown.splitlines() if line.strip()]
    assert all(len(line) <= 80 for line in lines) and "…" not in shown
    (row,) = await listed(tmp_path)
    assert row["id"] in lines[1]
    start = lines[0].index("name")
    end = lines[0].index("user")
    assert "".join(line[start:end].strip() for line in lines[1:]) == name


async def test_what_cannot_be_done_is_said_in_one_line(tmp_path: Path) -> None:
    for args, sentence in (
        (("create", "x", "--role", "root"), "there is no role 'root'; it is one of viewer, driver"),
        (("create", "x", "--tenant", "nowhere"), "the tenant 'nowhere' is not configured"),
        (("revoke", "key_x"), "there is no key key_x"),
    ):
        done = await keys(tmp_path, *args)
        assert done.status == 2 and sentence in done.words and done.out == "", done
    await keys(tmp_path, "create", "x")
    key_id = (await listed(tmp_path))[0]["id"]
    assert (await keys(tmp_path, "revoke", key_id)).status == 0
    again = await keys(tmp_path, "revoke", key_id)
    assert again.status == 2 and "was revoked before" in again.words


async def test_a_server_whose_only_key_is_revoked_does_not_start_and_the_doctor_says_why(tmp_path: Path) -> None:
    await keys(tmp_path, "create", "x")
    await keys(tmp_path, "revoke", (await listed(tmp_path))[0]["id"])
    settings = {"ANTIPHON_AUTH": "required", "ANTIPHON_PORT": "0"}
    done = await antiphon(tmp_path, "serve", "--data-dir", str(tmp_path / "data"), env=settings)
    assert done.status == 2 and "nobody could be let in: make a key with `antiphon keys create`" in done.words
    doctor = await antiphon(tmp_path, "doctor", "--data-dir", str(tmp_path / "data"), env=settings)
    assert doctor.status == 1 and "nobody could be let in" in doctor.out
    await keys(tmp_path, "create", "y")
    doctor = await antiphon(tmp_path, "doctor", "--data-dir", str(tmp_path / "data"), env=settings)
    assert "0 keys of the configuration, 1 keys of the store" in doctor.out


async def test_signed_tokens_are_taken_back_by_their_id_or_all_of_a_user(tmp_path: Path) -> None:
    jwt: Any = {"jwt": {"algorithm": "HS256", "secret": SECRET}, "auth": "required", "tenant": [{"id": "acme"}]}
    env = {"ANTIPHON_JWT": json.dumps(jwt["jwt"]), "ANTIPHON_TENANT": json.dumps(jwt["tenant"])}
    tokens = [signed(jti="t1"), signed(jti="t2"), signed(jti="t3", tenant=None)]
    assert "there is no [jwt]" in (await keys(tmp_path, "revoke-token", "t1")).err
    async with running_server(tmp_path / "data", identity={"reread_s": 0.1}, **jwt) as server:

        async def statuses() -> list[int]:
            return [(await get(server, "/v1/models", token)).status_code for token in tokens]

        async def become(*wanted: int) -> None:
            async def are() -> bool:
                return await statuses() == list(wanted)

            await until(are)

        assert (await keys(tmp_path, "revoke-token", "t1", **env)).status == 0
        await become(401, 200, 200)
        assert (await keys(tmp_path, "revoke-tokens", "anna", **env)).status == 0
        await become(401, 200, 401)
        assert (await keys(tmp_path, "revoke-tokens", "anna", "--tenant", "acme", **env)).status == 0
        await become(401, 401, 401)
        entries = await server.app.accounts.usage.audit(before=None, limit=9)
        assert [(entry.action, entry.target) for entry in reversed(entries)] == [
            ("token.revoke", "token:t1"),
            ("token.revoke", "tokens:user:anna/user:anna"),
            ("token.revoke", "tokens:acme/user:anna"),
        ]
