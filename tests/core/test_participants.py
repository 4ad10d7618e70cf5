"""Who is attached to a run, who of them is asked, and what others see."""

from __future__ import annotations

from typing import Any

import orjson

from antiphon.core.participants import MAX_ROWS, Participant, Roster


def somebody(connection: str, **fields: Any) -> Participant:
    return Participant(**{"connection": connection, "principal": "key:anna", "role": "driver", **fields})


def able(connection: str, *tools: str, **fields: Any) -> Participant:
    return somebody(connection, tools={tool: {} for tool in tools}, **fields)


def asked(roster: Roster, tool: str | None = "look", **labels: str) -> list[str]:
    return [participant.connection for participant in roster.asked(tool, labels)]


def test_a_connection_that_is_attached_twice_is_one_participant_until_both_ended() -> None:
    roster = Roster()
    assert roster.join(somebody("c1"))
    assert not roster.join(somebody("c1"))
    assert not roster.leave("c1")
    assert len(roster) == 1
    assert roster.leave("c1")
    assert roster.rows() == []


def test_an_instance_that_created_the_run_is_its_creator_before_it_ever_attached() -> None:
    roster = Roster()
    roster.created_by(("key:anna", "instance:tab"))
    roster.join(able("c1", "look"))
    assert asked(roster) == ["c1"]
    roster.join(somebody("c2", instance="tab"))
    assert asked(roster) == ["c2"]
    assert roster.is_creator(("key:anna", "instance:tab")) and not roster.is_creator(("key:bob", "instance:tab"))


def test_the_creator_is_asked_before_everybody_else_while_it_is_attached() -> None:
    roster = Roster()
    roster.join(somebody("c1"), creator=True)
    roster.join(able("c2", "look"))
    assert asked(roster) == ["c1"]
    roster.leave("c1")
    assert asked(roster) == ["c2"]


def test_the_creators_instance_is_asked_again_when_it_comes_back_on_another_connection() -> None:
    """T-07: ownership follows the instance, whichever of its sockets is noticed dead first."""
    roster = Roster()
    roster.join(somebody("c1", instance="tab-1"), creator=True)
    roster.join(somebody("c9", instance="tab-1"))
    roster.join(able("c2", "look"))
    assert asked(roster) == ["c1", "c9"]
    roster.leave("c1")
    assert asked(roster) == ["c9"]


def test_an_instance_name_of_another_principal_is_not_the_creator() -> None:
    roster = Roster()
    roster.join(somebody("c1", instance="tab-1"), creator=True)
    roster.leave("c1")
    roster.join(somebody("c2", principal="key:bob", instance="tab-1"))
    assert asked(roster) == []


def test_only_drivers_that_declared_the_tool_are_asked() -> None:
    roster = Roster()
    roster.join(able("c1", "look"))
    roster.join(able("c2", "go"))
    roster.join(able("c3", "look", role="viewer"))
    roster.join(somebody("c4"))
    assert asked(roster) == ["c1"]
    assert asked(roster, "nothing") == []


def test_an_approval_is_asked_of_every_driver() -> None:
    roster = Roster()
    roster.join(somebody("c1"))
    roster.join(somebody("c2", role="viewer"))
    roster.join(able("c3", "look"))
    assert asked(roster, None) == ["c1", "c3"]


def test_a_label_that_the_run_has_too_must_be_equal() -> None:
    roster = Roster()
    roster.join(somebody("c1", tools={"look": {"workspace": "a"}}))
    roster.join(able("c2", "look", labels={"workspace": "b"}))
    roster.join(able("c3", "look", labels={"room": "x"}))
    assert asked(roster, workspace="a") == ["c1", "c3"]
    assert asked(roster, workspace="b") == ["c2", "c3"]
    assert asked(roster, other="z") == ["c1", "c2", "c3"]


def test_who_says_hello_late_is_known_from_then_on_and_stays_the_creator() -> None:
    roster = Roster()
    roster.join(somebody("c1"), creator=True)
    assert roster.introduce(able("c1", "look", instance="tab-1"))
    assert not roster.introduce(able("c7", "look"))
    roster.leave("c1")
    roster.join(somebody("c2", instance="tab-1"))
    assert asked(roster) == ["c2"]


def test_presence_is_shown_and_survives_another_hello() -> None:
    roster = Roster()
    roster.join(somebody("c1"))
    assert roster.show("c1", "typing", "a reply")
    assert not roster.show("c2", "typing", None)
    roster.introduce(able("c1", "look"))
    assert roster.rows() == [
        {"connection": "c1", "principal": "key:anna", "role": "driver", "state": "typing", "label": "a reply"}
    ]


def test_over_a_hundred_participants_are_counted_instead_of_named() -> None:
    roster = Roster()
    for n in range(MAX_ROWS):
        roster.join(somebody(f"c{n}"))
    assert len(roster.rows()) == MAX_ROWS
    roster.join(somebody("v", role="viewer"))
    roster.show("c1", "typing", None)
    assert roster.rows() == [
        {"role": "driver", "state": "typing", "count": 1},
        {"role": "driver", "state": "watching", "count": MAX_ROWS - 1},
        {"role": "viewer", "state": "watching", "count": 1},
    ]


def test_creators_outlive_the_process_and_participants_do_not() -> None:
    roster = Roster()
    roster.join(somebody("c1", instance="tab-1"), creator=True)
    again = Roster()
    again.restore(orjson.loads(orjson.dumps(roster.snapshot())))
    assert again.rows() == []
    again.join(somebody("c5", instance="tab-1"))
    again.join(able("c6", "look"))
    assert asked(again) == ["c5"]
