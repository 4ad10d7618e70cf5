"""Who is attached to a run on another node: seen by its owner, told again to the next one, gone with the node."""

from __future__ import annotations

from tests.elsewhere.two_nodes import AUTH, Nodes, owns, participants, two_nodes
from tests.http.calling import begin, get
from tests.http.calling import until as eventually
from tests.session.held import calling, hold, output, taken, waits
from tests.session.play import connected, started, until, words, write_script
from tests.support.http_client import open_sse
from tests.support.ws_client import ws_client

LONG = words(3000, rate=100)


async def present(nodes: Nodes, run: str, count: int) -> list[str]:
    await until(lambda: len(participants(nodes.here, run)) == count, f"{count} participants")
    return list(participants(nodes.here, run))


async def cancelled(nodes: Nodes, run: str) -> None:
    """Wait for the end without listening, which would keep the run alive."""

    async def is_over() -> bool:
        return (await get(nodes.here, f"/v1/responses/{run}")).json()["status"] == "cancelled"

    await eventually(is_over)


async def hand_over(nodes: Nodes) -> None:
    """As a drain does: the node lets go of what it has, and takes nothing."""
    nodes.here.app.engine.adopter.resting = True
    await nodes.here.app.engine.ownership.hand_over()


async def test_who_comes_and_goes_on_one_node_is_pushed_on_the_other(postgres_url: str) -> None:
    async with two_nodes(postgres_url, **AUTH) as nodes, connected(nodes.here.ws_url, api_key="anna") as anna:
        mine = (await anna.hello())["connection_id"]
        run = await hold(anna, calling(nodes.folder, 1))
        async with connected(nodes.there.ws_url, api_key="viewer") as viewer:
            theirs = (await viewer.hello())["connection_id"]
            attached = await viewer.attach(run.id, after="now")
            assert [row["connection"] for row in attached["state"]["participants"]] == [mine, theirs]
            await anna.recv_until(
                lambda e: (
                    e["type"] == "antiphon:run"
                    and [row["connection"] for row in e["state"]["participants"]] == [mine, theirs]
                )
            )
            await viewer.command("antiphon:presence", response_id=run.id, state="typing", label="a reply")
            await anna.recv_until(
                lambda e: (
                    e["type"] == "antiphon:run"
                    and [(row["state"], row["label"]) for row in e["state"]["participants"]][1:]
                    == [("typing", "a reply")]
                )
            )
        await anna.recv_until(
            lambda e: (
                e["type"] == "antiphon:run" and [row["connection"] for row in e["state"]["participants"]] == [mine]
            )
        )
        await taken(anna, run.id, output(run.call_ids[0]))
        await anna.collect_run()


async def test_attaching_twice_on_another_node_is_one_participant_until_both_are_over(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes, connected(nodes.there.ws_url) as other:
        run = await begin(nodes.here, model=write_script(nodes.folder, "long", [LONG]))
        await other.hello()
        await other.attach(run, after="now", stream_id="one")
        await other.attach(run, after="now", stream_id="two")  # moves the attachment
        await present(nodes, run, 1)
        async with open_sse("GET", f"{nodes.there.url}/v1/responses/{run}?stream=true"):
            await present(nodes, run, 2)
        await present(nodes, run, 1)
        await other.command("antiphon:detach", response_id=run)
        await present(nodes, run, 0)
        await other.command("antiphon:cancel", response_id=run)


async def test_a_run_is_not_abandoned_while_somebody_listens_on_another_node(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes, ws_client(nodes.here.ws_url) as owner:
        model = write_script(nodes.folder, "long", [LONG])
        await owner.create(model, antiphon={"on_disconnect": 0})
        run = await started(owner)
        async with ws_client(nodes.there.ws_url) as other:
            await other.hello()
            await other.attach(run, stream_id="watch")
            await owner.close()  # at once: who was answered that they are attached counts already
            own = nodes.here.app.engine.directory.own(run)
            assert own is not None
            await until(lambda: own.listeners == 1, "only the other node listens")
            await other.recv_until(lambda e: e["type"] == "response.output_text.delta", stream_id="watch")
            assert own.stop is None
        await cancelled(nodes, run)


async def test_nobody_of_a_dead_node_stays_a_participant_and_its_listeners_do_not_count(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes, ws_client(nodes.here.ws_url) as owner:
        await owner.create(write_script(nodes.folder, "long", [LONG]), antiphon={"on_disconnect": 1})
        run = await started(owner)
        async with ws_client(nodes.there.ws_url) as other:
            await other.hello()
            await other.attach(run, after="now")
            ids = await present(nodes, run, 2)
            own = nodes.here.app.engine.directory.own(run)
            assert own is not None
            await until(lambda: own.listeners == 2, "that both listen")
            nodes.here.app.engine.company.node_gone(nodes.there.app.engine.bus.node)
            assert await present(nodes, run, 1) == ids[:1]
            await owner.close()
            await cancelled(nodes, run)


async def test_a_node_that_was_only_thought_dead_is_heard_again_with_its_next_change(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes, ws_client(nodes.there.ws_url) as other:
        run = await begin(nodes.here, model=write_script(nodes.folder, "long", [LONG]))
        await other.hello()
        await other.attach(run, after="now")
        await present(nodes, run, 1)
        nodes.here.app.engine.company.node_gone(nodes.there.app.engine.bus.node)
        await present(nodes, run, 0)
        async with open_sse("GET", f"{nodes.there.url}/v1/responses/{run}?stream=true"):
            await present(nodes, run, 2)
        await other.command("antiphon:cancel", response_id=run)


async def test_what_the_bus_lost_is_told_again(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes, ws_client(nodes.there.ws_url) as other:
        run = await begin(nodes.here, model=write_script(nodes.folder, "long", [LONG]))
        await other.hello()
        await other.attach(run, after="now")
        await present(nodes, run, 1)
        nodes.here.app.engine.company.node_gone(nodes.there.app.engine.bus.node)
        await present(nodes, run, 0)
        nodes.there.app.engine.company.say_again()
        await present(nodes, run, 1)
        await other.command("antiphon:cancel", response_id=run)


async def test_after_a_handover_the_new_owner_knows_who_is_attached_and_whose_run_it_is(postgres_url: str) -> None:
    async with (
        two_nodes(postgres_url, **AUTH) as nodes,
        connected(nodes.here.ws_url, api_key="anna") as anna,
        connected(nodes.there.ws_url, api_key="bob") as bob,
    ):
        run = await hold(anna, calling(nodes.folder, 1))
        theirs = (await bob.hello())["connection_id"]
        await bob.attach(run.id, after="now", stream_id="watch")
        await waits(nodes.here, run)
        await hand_over(nodes)
        await until(lambda: owns(nodes.there, run.id), "the other node to take the run")
        new = nodes.there.app.engine.directory.own(run.id)
        assert new is not None
        await until(lambda: len(new.roster) == 2, "the guests of both nodes")
        assert theirs in {row["connection"] for row in new.state.participants}
        assert new.create.connection is not None and not new.create.connection.said_hello
        # A plain client's run is still steered by nobody else: it would not expect the successor.
        await bob.send({"type": "response.steer", "previous_response_id": run.id, "input": "more"})
        told = await bob.recv_until(lambda e: e["type"].startswith("response.steer."), stream_id="watch")
        assert told[-1]["error"]["code"] == "steering_not_supported"
        await taken(anna, run.id, output(run.call_ids[0]))
        assert (await anna.collect_run())[-1]["type"] == "response.completed"


async def test_a_creator_that_left_after_a_handover_no_longer_keeps_others_from_steering(
    postgres_url: str,
) -> None:
    async with two_nodes(postgres_url) as nodes, ws_client(nodes.there.ws_url) as other:
        async with ws_client(nodes.here.ws_url) as owner:
            run = await hold(owner, calling(nodes.folder, 1))
            await waits(nodes.here, run)
            await hand_over(nodes)
            await until(lambda: owns(nodes.there, run.id), "the other node to take the run")
            new = nodes.there.app.engine.directory.own(run.id)
            assert new is not None
            await until(lambda: new.create.connection is not None, "the creator's socket")
        await until(
            lambda: new.create.connection is not None and not new.create.connection.open, "that it is gone"
        )
        await other.send({"type": "response.steer", "previous_response_id": run.id, "input": "more"})
        told = await other.recv_until(lambda e: e["type"].startswith("response.steer."))
        assert told[-1]["type"] == "response.steer.accepted"
