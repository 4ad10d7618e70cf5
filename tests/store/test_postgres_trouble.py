"""PostgreSQL that is restarted, frozen, slow, full, or not what it should be: clear errors, and it heals."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from antiphon.errors import StartupError, StorageError
from antiphon.settings import Settings
from antiphon.store import records
from antiphon.store.opening import open_store
from antiphon.store.postgres import migrating, reading
from antiphon.store.postgres.connection import check_server
from antiphon.store.postgres.writer import PostgresWriter
from antiphon.store.responses import ResponseReader
from antiphon.store.writing import StoreConnection
from tests.store.database import database, ending, new_response
from tests.support import postgres
from tests.support.postgres import PostgresServer

SOON_S = 15.0


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server of the test's own, which it may stop and freeze."""
    with PostgresServer(durable=True) as server:
        yield server


def begin(name: str) -> Any:
    return records.begin(new_response(name), None)


async def until_written(db: Any, name: str) -> int:
    """Submit until it is taken, as every caller does; gives how often it was refused."""
    refused = 0
    async with asyncio.timeout(SOON_S):
        while True:
            try:
                await db.writer.submit(begin(name))
                return refused
            except StorageError:
                refused += 1
                await asyncio.sleep(0.05)


async def test_what_was_answered_survives_kills_and_what_was_not_is_written_by_trying_again(
    own_server: PostgresServer,
) -> None:
    async with database(own_server.create_database(), timeout_s=2.0) as db:
        answered: list[str] = []
        hundred, done = asyncio.Event(), asyncio.Event()

        async def write(worker: int) -> None:
            number = 0
            while not done.is_set():
                name = f"resp_{worker}_{number}"
                await until_written(db, name)
                answered.append(name)
                number += 1
                if len(answered) % 100 == 0:
                    hundred.set()

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for worker in range(8):
                group.create_task(write(worker))
            for end in (own_server.kill, own_server.stop, own_server.kill):
                await hundred.wait()
                await asyncio.to_thread(end)
                await asyncio.to_thread(own_server.start)
                hundred.clear()
            await hundred.wait()
            done.set()
        assert {row[0] for row in db.rows("SELECT id FROM responses")} == set(answered)
        assert len(answered) == len(set(answered))


async def test_readers_and_the_writer_heal_after_a_restart_without_an_error(own_server: PostgresServer) -> None:
    async with database(own_server.create_database()) as db:
        await db.writer.submit(begin("resp_1"))
        await asyncio.gather(*(db.reader.ping() for _ in range(8)))
        await asyncio.to_thread(own_server.restart)
        assert await db.reader.find("resp_1") is not None
        assert (await db.writer.submit(records.end(ending("resp_1"), []))).won


async def test_a_server_that_is_away_fails_reads_and_writes_at_once_and_all_of_them(
    own_server: PostgresServer,
) -> None:
    async with database(own_server.create_database()) as db:
        await db.writer.submit(begin("resp_1"))
        with own_server.stopped():
            started = time.monotonic()
            tries = [db.writer.submit(begin(f"resp_x{n}")) for n in range(300)]
            tries += [asyncio.ensure_future(db.reader.find("resp_1")) for _ in range(50)]
            results = await asyncio.gather(*tries, return_exceptions=True)
            assert all(isinstance(result, StorageError) for result in results)
            assert time.monotonic() - started < SOON_S
        assert await until_written(db, "resp_2") == 0
        assert await db.reader.find("resp_2") is not None


async def test_a_frozen_server_fails_within_the_timeout_while_the_loop_goes_on(own_server: PostgresServer) -> None:
    async with database(own_server.create_database(), timeout_s=1.0) as db:
        await db.writer.submit(begin("resp_1"))
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0.01)
                beats += 1

        heart = asyncio.create_task(beat())
        with own_server.paused():
            started = time.monotonic()
            tries: list[Any] = [db.writer.submit(begin(f"resp_x{n}")) for n in range(300)]
            tries += [asyncio.ensure_future(db.reader.find("resp_1")) for _ in range(20)]
            results = await asyncio.gather(*tries, return_exceptions=True)
            assert all(isinstance(result, StorageError) for result in results)
            assert time.monotonic() - started < SOON_S
            assert beats > 20
        heart.cancel()
        assert await until_written(db, "resp_x0") == 0
        assert await db.reader.find("resp_1") is not None
        terminal = await db.writer.submit(records.end(ending("resp_x0"), []))
        assert terminal.won


async def test_stopping_does_not_wait_for_a_frozen_server_once_for_each_group(own_server: PostgresServer) -> None:
    url = own_server.create_database()
    migrating.migrate(url, 5)
    writer = PostgresWriter(url, timeout_s=1.0)
    writer.start()
    await writer.submit(begin("resp_1"))
    with own_server.paused():
        waiting = [writer.submit(begin(f"resp_x{n}")) for n in range(3000)]
        async with asyncio.timeout(SOON_S):
            await writer.stop()
        results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, StorageError) for result in results)


async def test_a_statement_that_takes_too_long_fails_and_the_next_one_works(postgres_url: str) -> None:
    def slow(connection: StoreConnection) -> None:
        connection.execute("SELECT pg_sleep(?)", (30,))

    async with database(postgres_url, timeout_s=0.5) as db:
        with pytest.raises(StorageError) as caught:
            await db.writer.submit(slow)
        assert "statement timeout" in str(caught.value.__cause__)
        await db.writer.submit(begin("resp_1"))


async def test_a_lock_that_another_holds_costs_the_one_who_needs_it_and_not_its_group(postgres_url: str) -> None:
    async with database(postgres_url, timeout_s=1.0) as db:
        await asyncio.gather(*(db.writer.submit(begin(f"resp_{n}")) for n in range(3)))
        with postgres.psycopg.connect(postgres_url) as other:
            other.execute("SELECT 1 FROM responses WHERE id = 'resp_1' FOR UPDATE")
            ends = [db.writer.submit(records.end(ending(f"resp_{n}"), [])) for n in range(3)]
            results = await asyncio.gather(*ends, return_exceptions=True)
            assert isinstance(results[1], StorageError)
            assert results[0].won and results[2].won  # type: ignore[union-attr]
        assert (await db.writer.submit(records.end(ending("resp_1"), []))).won


async def test_a_node_that_freezes_inside_a_transaction_does_not_hold_its_locks_for_ever(
    postgres_url: str,
) -> None:
    frozen, go_on = threading.Event(), threading.Event()

    def freeze(connection: StoreConnection) -> None:
        connection.execute("UPDATE responses SET status = 'cancelled' WHERE id = ?", ("resp_1",))
        frozen.set()
        assert go_on.wait(SOON_S)

    async with database(postgres_url) as one, database(postgres_url) as two:
        await one.writer.submit(begin("resp_1"))
        stuck = one.writer.submit(freeze)
        await asyncio.to_thread(frozen.wait, SOON_S)
        async with asyncio.timeout(SOON_S):
            while True:
                try:
                    assert await two.writer.submit(records.take_over("resp_1", None)) == 2
                    break
                except StorageError:
                    await asyncio.sleep(0.05)
        go_on.set()
        with pytest.raises(StorageError):
            await stuck
        stored = await one.reader.find("resp_1")
        assert stored is not None and (stored.status, stored.fence) == ("in_progress", 2)


async def test_a_full_disk_refuses_what_does_not_fit_and_writes_go_on_when_there_is_room(
    postgres_url: str,
) -> None:
    full = """
    CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;
    CREATE TRIGGER full_disk BEFORE INSERT ON journal FOR EACH ROW EXECUTE FUNCTION full_disk();
    """
    async with database(postgres_url) as db:
        await db.writer.submit(begin("resp_1"))
        postgres.execute(postgres_url, full)
        terminal = ending("resp_1")
        chunk = ("resp_1", 0, 2, b"a\nb\n" + terminal.terminal_event)
        group = [db.writer.submit(records.end(terminal, [chunk])), db.writer.submit(begin("resp_2"))]
        refused, fine = await asyncio.gather(*group, return_exceptions=True)
        assert isinstance(refused, StorageError) and fine is None
        stored = await db.reader.find("resp_1")
        assert stored is not None and stored.status == "in_progress" and stored.terminal_event is None
        postgres.execute(postgres_url, "DROP TRIGGER full_disk ON journal")
        assert (await db.writer.submit(records.end(terminal, [chunk]))).won


async def test_a_reader_that_is_cancelled_leaves_its_connection_usable(postgres_url: str) -> None:
    async with database(postgres_url) as db:
        await db.writer.submit(begin("resp_1"))
        for _ in range(30):
            read = asyncio.ensure_future(db.reader.find("resp_1"))
            await asyncio.sleep(0)
            read.cancel()
        found = await asyncio.gather(*(db.reader.find("resp_1") for _ in range(10)))
        assert all(row is not None and row.id == "resp_1" for row in found)


async def test_reads_beyond_the_pool_wait_their_turn_and_no_longer_than_the_timeout(postgres_url: str) -> None:
    async with database(postgres_url) as db:
        await asyncio.gather(*(db.reader.ping() for _ in range(50)))
        engine = reading.open_reader(postgres_url, connections=2, timeout_s=1.0)
        reader = ResponseReader(engine, timeout_s=1.0)
        held = [await engine.connect() for _ in range(2)]
        with pytest.raises(StorageError):
            await reader.ping()
        for connection in held:
            await connection.close()
        await reader.ping()
        await reader.aclose()


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        (
            "postgresql://antiphon:wr0ng@127.0.0.1:{port}/postgres",
            'password authentication failed for user "antiphon"',
        ),
        ("postgresql://somebody:wr0ng@127.0.0.1:{port}/postgres", 'authentication failed for user "somebody"'),
        ("postgresql://antiphon:a%20pass%2Fword@127.0.0.1:{port}/nowhere", 'database "nowhere" does not exist'),
        ("postgresql://u:wr0ng@no-such-host.invalid/x", "no-such-host.invalid"),
        ("postgresql://u:wr0ng@127.0.0.1:1/x", "Connection refused"),
        ("postgresql://u:wr0ng@127.0.0.1:many/x", "port"),
        ("postgresql://u:wr0ng@127.0.0.1/x?sslmod=require", "sslmod"),
        ("postgresql://u:wr0ng@[::1/x", "not a PostgreSQL URL"),
        ("postgresql://u:wr0ng%zz@h/x", "not a PostgreSQL URL"),
        ("postgresql://u:wr0ng x@h/x", "not a PostgreSQL URL"),
    ],
)
async def test_a_start_says_in_one_line_what_is_wrong_and_never_the_password(
    postgres_server: PostgresServer, url: str, hint: str
) -> None:
    with pytest.raises(StartupError) as caught:
        await open_store(Settings(store_url=url.format(port=postgres_server.port))).prepare()
    message = caught.value.message
    assert hint in message and "\n" not in message
    assert "wr0ng" not in message and "word@" not in message


async def test_a_database_that_is_not_utf8_is_refused(postgres_server: PostgresServer) -> None:
    postgres_server.execute(
        "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    try:
        with pytest.raises(StartupError, match="encoding LATIN1"):
            await asyncio.to_thread(check_server, postgres_server.url("latin"), 5)
    finally:
        postgres_server.drop_database(postgres_server.url("latin"))


async def test_a_server_that_only_reads_is_refused(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database()
    name = url.rpartition("/")[2]
    postgres_server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(StartupError, match="read-only"):
        await asyncio.to_thread(check_server, url, 5)
    postgres_server.drop_database(url)


def old_server() -> tuple[str, threading.Thread]:
    """What PostgreSQL 12 says when somebody connects; it answers every query with nothing."""
    listener = socket.create_server(("127.0.0.1", 0))

    def message(kind: bytes, payload: bytes) -> bytes:
        return kind + struct.pack("!I", len(payload) + 4) + payload

    def serve() -> None:
        with listener, listener.accept()[0] as client:
            client.settimeout(SOON_S)
            while (start := client.recv(8192))[4:8] != b"\x00\x03\x00\x00":
                if not start:
                    return
                client.sendall(b"N")  # no TLS, no GSS
            names = {"server_version": "12.4", "server_encoding": "UTF8", "client_encoding": "UTF8"}
            names |= {"default_transaction_read_only": "off", "in_hot_standby": "off"}
            hello = message(b"R", struct.pack("!I", 0))
            for name, value in names.items():
                hello += message(b"S", f"{name}\0{value}\0".encode())
            client.sendall(hello + message(b"Z", b"I"))
            while client.recv(8192):
                client.sendall(
                    message(b"1", b"")
                    + message(b"2", b"")
                    + message(b"n", b"")
                    + message(b"C", b"SELECT 0\0")
                    + message(b"Z", b"I")
                )

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return f"postgresql://u@127.0.0.1:{listener.getsockname()[1]}/x", thread


async def test_a_server_that_is_too_old_is_refused() -> None:
    url, thread = old_server()
    with pytest.raises(StartupError, match="is PostgreSQL 12; antiphon needs 13"):
        await asyncio.to_thread(check_server, url, 5)
    await asyncio.to_thread(thread.join, SOON_S)
