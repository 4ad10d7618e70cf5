"""Opening the database: one server each, and a sentence where it cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.app import Antiphon
from antiphon.errors import StartupError
from tests.http.calling import create
from tests.support.server import ServerProcess, running_server, test_settings


async def refused(folder: Path, **settings: object) -> str:
    """Start a server that cannot start; its sentence."""
    app = Antiphon(test_settings(folder, **settings))
    with pytest.raises(StartupError) as caught:
        await app.start()
    await app._router.aclose()
    return caught.value.message


async def test_a_second_server_on_the_same_data_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        sentence = await refused(tmp_path)
        assert "another antiphon server uses the data in" in sentence and str(tmp_path) in sentence
        assert "--data-dir" in sentence
        assert (await create(server))["status"] == "completed"
    async with running_server(tmp_path) as server:
        assert (await create(server))["status"] == "completed"


async def test_a_second_process_on_the_same_data_exits_with_the_sentence_and_a_killed_one_holds_nothing(
    tmp_path: Path,
) -> None:
    async with ServerProcess(tmp_path) as server:
        second = ServerProcess(tmp_path)
        with pytest.raises(AssertionError) as caught:
            await second.start()
        assert "another antiphon server uses the data" in str(caught.value)
        assert await second.wait() == 2
        await server.kill()
        await server.start()


async def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "antiphon.db").write_bytes(b"this is a letter, not a database\n" * 200)
    sentence = await refused(tmp_path)
    assert "antiphon.db cannot be used" in sentence and "not a database" in sentence


async def test_a_database_with_torn_pages_is_said_to_be_unusable(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        for _ in range(3):
            await create(server, "x" * 5000)
    path = tmp_path / "antiphon.db"
    data = bytearray(path.read_bytes())
    for page in range(1, len(data) // 4096):
        data[page * 4096 : page * 4096 + 100] = b"\xff" * 100
    path.write_bytes(bytes(data))
    assert "cannot be used" in await refused(tmp_path)


async def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        await server.app.backends.store.writer.submit(
            lambda connection: connection.execute("UPDATE alembic_version SET version_num = '9999'") and None
        )
    before = (tmp_path / "antiphon.db").read_bytes()
    assert "another version" in await refused(tmp_path)
    assert (tmp_path / "antiphon.db").read_bytes() == before


async def test_a_folder_that_cannot_be_made_or_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    sentence = await refused(tmp_path / "file" / "data")
    assert "cannot be used" in sentence and str(tmp_path / "file") in sentence


async def test_a_database_path_that_is_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "antiphon.db").mkdir()
    assert "antiphon.db cannot be used" in await refused(tmp_path)


async def test_a_start_that_failed_lets_go_of_the_data(tmp_path: Path) -> None:
    (tmp_path / "antiphon.db").write_bytes(b"not a database at all" * 300)
    await refused(tmp_path)
    (tmp_path / "antiphon.db").unlink()
    async with running_server(tmp_path) as server:
        assert (await create(server))["status"] == "completed"


async def test_a_store_url_names_the_file(tmp_path: Path) -> None:
    where = tmp_path / "else where?" / "runs.db"
    async with running_server(tmp_path, store_url=f"sqlite:///{where}") as server:
        await create(server)
    assert where.is_file() and not (tmp_path / "antiphon.db").exists()
