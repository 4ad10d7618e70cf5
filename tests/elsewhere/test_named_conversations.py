"""Conversations that clients make, from two nodes (PROTOCOL 11.9)."""

from __future__ import annotations

import asyncio

from tests.elsewhere.two_nodes import two_nodes
from tests.http.calling import body, create, error_of
from tests.http.test_conversations import conversation, listed, post
from tests.http.test_conversations import words as said
from tests.session.play import words, write_script


async def test_turns_on_two_nodes_are_one_conversation(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes:
        one = await conversation(nodes.here, metadata={"k": "v"})
        await create(nodes.there, "one", conversation=one)
        await create(nodes.here, "two", conversation=one)
        for node in (nodes.here, nodes.there):
            assert said(await listed(node, one)) == ["one", "one", "two", "two"]


async def test_a_writer_on_another_node_is_told_of_the_one_here(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes:
        model = write_script(nodes.folder, "endless", [words(100_000, rate=50)])
        one = await conversation(nodes.here)
        running = await create(nodes.here, "one", model=model, conversation=one, background=True)
        answer = await post(nodes.there, "/v1/responses", **body("two", conversation=one))
        assert (answer.status_code, error_of(answer)["code"]) == (409, "conversation_locked")
        await post(nodes.there, f"/v1/responses/{running['id']}/cancel")
        await create(nodes.there, "two", conversation=one)
        assert said(await listed(nodes.here, one))[-2:] == ["two", "two"]


async def test_of_writers_on_two_nodes_at_once_the_database_lets_one_begin(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes:
        model = write_script(nodes.folder, "short", [words(20, rate=50)])
        for n in range(5):
            one = await conversation(nodes.here)
            answers = await asyncio.gather(
                *(
                    post(node, "/v1/responses", **body(f"{n}", model=model, conversation=one))
                    for node in (nodes.here, nodes.there)
                )
            )
            assert sorted(answer.status_code for answer in answers) == [200, 409], [a.text for a in answers]
            assert len(await listed(nodes.there, one)) == 2
