"""The chat of one terminal: what it follows, what it asked for, and what comes next (PROTOCOL 5, 7, 10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from antiphon.cli.client.chat.desk import Desk
from antiphon.cli.client.chat.outgoing import TRANSIENT, Frame, Outgoing
from antiphon.cli.client.chat.run import ChatRun
from antiphon.cli.client.chat.steering import Steering
from antiphon.cli.client.chat.told import Before, Began, Conversing, Ended, Fatal, Later, Refused, Rewound
from antiphon.cli.client.questions import Question

LANE = "chat"
_CONVERSATION = "conversation"
_LIVE = frozenset({"queued", "running", "waiting_for_tool"})


class ChatSession:
    """Gets frames and what the person does; `out` has what is to be sent and told.

    parent: what the next message continues. model: for the next message; None: the server's own.
    tools: definitions of the tools this terminal answers. mint: new unique ids. attach: a run to begin with.
    """

    def __init__(
        self,
        *,
        mint: Callable[[], str],
        model: str | None = None,
        agent: str | None = None,
        tools: Sequence[Frame] = (),
        conversation_id: str | None = None,
        attach: str | None = None,
    ) -> None:
        self.out = Outgoing()
        self.model = model
        self.conversation_id = conversation_id
        self.parent: str | None = None
        self._mint = mint
        self._agent = agent
        self._tools = list(tools)
        self._desk = Desk(self.out, mint, frozenset(str(tool["name"]) for tool in tools))
        self._steering = Steering(self.out)
        self._connection = ""
        self._runs: dict[str, ChatRun] = {}
        self._lanes: dict[str, str] = {}
        self._create: Frame | None = None
        """Asked for and not begun yet. Its idempotency key makes a repeat the same run (5.8)."""
        self._waiting: list[str] = []
        """What was typed while it was open which run it is for."""
        self._following = False
        """A run that was steered has ended, and the one that follows has not begun."""
        self._cancels: set[str] = set()
        self._cancel_create = False
        self._listed: set[str] | None = None
        """Ended runs of the conversation that need not be shown; None before it was attached to."""
        self._wanted = attach
        if attach is not None:
            self._runs[attach] = ChatRun(attach, mine=False)

    @property
    def is_ready(self) -> bool:
        """Whether it is known what the next message continues."""
        wanted = self._runs.get(self._wanted) if self._wanted is not None else None
        return (wanted is None or wanted.began) and (self.conversation_id is None or self._listed is not None)

    @property
    def questions(self) -> list[Question]:
        """What waits for the person, oldest first."""
        return self._desk.questions

    @property
    def live(self) -> ChatRun | None:
        """The newest run that goes on."""
        return next((run for run in reversed(self._runs.values()) if not run.is_over), None)

    @property
    def is_busy(self) -> bool:
        """Whether an answer is under way, or asked for."""
        return self._create is not None or self._following or self.live is not None

    # What the person does

    def say(self, text: str) -> None:
        """A message: the next one of the conversation, or more for the run that goes on."""
        if self._create is not None or self._following:
            self._waiting.append(text)
        elif (run := self.live) is not None:
            self._steering.steer(run, text)
        else:
            self._begin(text)

    def answer(self, question: Question, line: str) -> None:
        """An answer to a question. Raises Unanswerable, and nothing happened."""
        self._desk.answer(question, line)

    def cancel(self) -> bool:
        """Stop the answer that is under way; whether there is one."""
        if self._create is not None:
            self._cancel_create = True
        elif (run := self.live) is not None:
            self._cancels.add(run.id)
            self.out.send(_cancel(run.id))
        return self.is_busy

    def continue_from(self, response_id: str | None) -> None:
        """What the next message continues, where only the history tells."""
        self.parent = response_id

    def anew(self) -> None:
        """The next message begins a conversation of its own. Not while an answer is under way."""
        if self.conversation_id is not None:
            detach = {"type": "antiphon:detach", "id": "detach", "conversation_id": self.conversation_id}
            self.out.send(detach)
        self.conversation_id, self.parent, self._listed = None, None, None
        self._runs.clear()
        self._lanes.clear()

    # The connection

    def opened(self, connection: str) -> None:
        """A connection stands: everything that is followed is asked for again, from where it was read to."""
        self._connection = connection
        self._lanes.clear()
        for run in self._runs.values():
            run.is_attaching = False
            if not run.is_over:
                self._attach(run)
        if self.conversation_id is not None:
            self._converse()
        if self._create is not None:
            self.out.send(self._create)
        self.out.send(*map(_cancel, self._cancels))
        self._desk.again()

    def take(self, frame: Frame) -> None:
        """Take a frame of the server."""
        kind = str(frame.get("type"))
        handlers: dict[str, Callable[[Frame], None]] = {
            "antiphon:attached": self._attached,
            "antiphon:run_attached": self._run_attached,
            "antiphon:detached": self._detached,
            "antiphon:run": lambda frame: self._state(frame["state"]),
            "antiphon:error": self._command_refused,
            "error": self._create_refused,
            "response.inject.created": self._desk.acknowledged,
            "response.inject.failed": self._desk.refused,
            "response.steer.accepted": self._steering.accepted,
            "response.steer.failed": self._steer_refused,
        }
        if kind in handlers:
            handlers[kind](frame)
        elif kind.startswith("response.") and not kind.startswith("response.steer."):
            self._event(frame)

    # Runs

    def _event(self, event: Frame) -> None:
        lane = str(event.get("stream_id"))
        if event["type"] == "response.created":
            self._lanes[lane] = str(event["response"]["id"])
        if lane not in self._lanes:
            return
        run = self._run(self._lanes[lane], mine=lane == LANE)
        verdict = run.cursor.take(event)
        if verdict == "gap":
            self._attach(run)
        elif verdict == "new":
            if not run.began:
                self._begun(run)
            self.out.tell(*run.tell(event))
            self._desk.look(run, self._connection)
            if run.is_over:
                self._ended(run, event["response"])
        if event["type"] == "response.created":
            self._created(run, lane)

    def _run(self, response_id: str, *, mine: bool) -> ChatRun:
        known = self._runs.get(response_id)
        if known is None:
            known = self._runs[response_id] = ChatRun(response_id, mine=mine)
        return known

    def _begun(self, run: ChatRun) -> None:
        run.began = True
        self.out.tell(Began(run.id, run.mine, run.principal))

    def _created(self, run: ChatRun, lane: str) -> None:
        """A run of ours, or one that follows a steered one, has an id."""
        self._following = False
        if lane == LANE:
            self._create = None
        if self._create is not None:
            return
        if self._cancel_create:
            self._cancel_create = False
            self._waiting.clear()
            self.cancel()
        self._say_waiting()

    def _ended(self, run: ChatRun, response: Frame) -> None:
        """A run is over, and its end was told."""
        if response["status"] != "failed":
            self.parent = run.id
        self._cancels.discard(run.id)
        self._desk.look(run, self._connection)
        self._following = (response.get("incomplete_details") or {}).get("reason") == "steered"
        self._say_waiting()

    def _say_waiting(self) -> None:
        if not self._following and self._create is None:
            waiting, self._waiting = self._waiting, []
            for text in waiting:
                self.say(text)

    def _state(self, state: Frame) -> None:
        run = self._runs.get(str(state["response_id"]))
        if run is None:
            return
        run.update(state)
        if self.conversation_id is None and state.get("conversation_id") is not None:
            self.conversation_id = str(state["conversation_id"])
            self.out.tell(Conversing(self.conversation_id))
            self._converse()
        self._desk.look(run, self._connection)

    # Attaching

    def _attach(self, run: ChatRun) -> None:
        if not run.is_attaching:
            run.is_attaching = True
            self.out.send(_attach(run))

    def _converse(self) -> None:
        self.out.send({"type": "antiphon:attach", "id": _CONVERSATION, "conversation_id": self.conversation_id})

    def _attached(self, frame: Frame) -> None:
        if frame["id"] == _CONVERSATION:
            self._list(frame["runs"])
            return
        run = self._run(str(frame["response_id"]), mine=False)
        run.is_attaching = False
        self._lanes[str(frame["stream_id"])] = run.id
        if frame.get("state") is not None:
            self._state(frame["state"])
        if run.id == self._wanted and not run.began:
            self.out.tell(Before(run.id, is_ended=False))
            self._begun(run)
        self._begin_reading(run, frame)
        for text in self._steering.again(run):
            self.say(text)

    def _run_attached(self, frame: Frame) -> None:
        known = str(frame["response_id"]) in self._runs
        run = self._run(str(frame["response_id"]), mine=False)
        self._lanes[str(frame["stream_id"])] = run.id
        if not known:
            self._begin_reading(run, frame)

    def _begin_reading(self, run: ChatRun, frame: Frame) -> None:
        response = frame.get("response") or {}
        if run.cursor.attached(frame):
            self.out.tell(Rewound(run.id), *run.texts(response))
        elif run.cursor.ended and not run.is_over and response:
            self.out.tell(run.ended(response))
            self._ended(run, response)

    def _list(self, states: list[Frame]) -> None:
        """The runs of the conversation. Those that go on are pushed by themselves."""
        listed, self._listed = self._listed, self._listed or set()
        self._following = False
        for state in states:
            run_id = str(state["response_id"])
            if run_id in self._runs:
                self._state(state)
            elif state["state"] in _LIVE:
                self._run(run_id, mine=False).update(state)
            elif listed is None:
                self._listed.add(run_id)
                if not self._runs:
                    self.out.tell(Before(run_id, is_ended=True))
            elif run_id not in listed:  # it came and went while this terminal was cut off
                self._attach(self._run(run_id, mine=False))
        self._say_waiting()

    def _detached(self, frame: Frame) -> None:
        run = self._runs.get(str(frame["response_id"]))
        self._lanes.pop(str(frame["stream_id"]), None)
        if run is not None and not run.is_over and frame["reason"] != "ended":
            self._attach(run)

    def _command_refused(self, frame: Frame) -> None:
        code, message = str(frame["code"]), str(frame["message"])
        what, _, run_id = str(frame.get("id")).partition(":")
        run = self._runs.get(run_id)
        if what == "attach" and run is not None:
            run.is_attaching = False
            self._attach_refused(run, frame)
        elif what == _CONVERSATION and code in TRANSIENT:
            self.out.tell(Later({"type": "antiphon:attach", "id": what, "conversation_id": self.conversation_id}))
        elif what == _CONVERSATION and self._listed is None and not self._runs:
            self.out.tell(Fatal(code, message))
        elif what == "cancel":
            self._cancels.discard(run_id)
            self.out.tell(Refused(code, message))

    def _attach_refused(self, run: ChatRun, frame: Frame) -> None:
        code, message = str(frame["code"]), str(frame["message"])
        if code == "epoch_changed":
            if run.cursor.forked(str(frame["epoch"]), int(frame["fork"])):
                self.out.tell(Rewound(run.id))
            self._attach(run)
        elif code in ("cursor_in_future", "cursor_expired"):
            run.cursor.anew()
            self.out.tell(Rewound(run.id))
            self._attach(run)
        elif code in TRANSIENT:
            self.out.tell(Later(_attach(run)))
        elif run.id == self._wanted and not run.began:
            self.out.tell(Fatal(code, message))
        else:
            run.is_over = True
            self.out.tell(Ended(run.id, "failed", code, message))
            self._desk.look(run, self._connection)
            self._say_waiting()

    # Creates and steers

    def _begin(self, text: str) -> None:
        frame: Frame = {"type": "response.create", "stream_id": LANE, "input": text}
        extra: dict[str, Any] = {"client_tools": "hold"} | ({"agent": self._agent} if self._agent else {})
        frame |= {"idempotency_key": self._mint(), "tools": self._tools, "antiphon": extra}
        frame |= {"model": self.model} if self.model else {}
        frame |= {"previous_response_id": self.parent} if self.parent else {}
        self._create = frame
        self.out.send(frame)

    def _create_refused(self, frame: Frame) -> None:
        error = frame["error"]
        code, message = str(error["code"]), str(error["message"])
        if frame.get("stream_id") != LANE or self._create is None:
            self.out.tell(Refused(code, message))
        elif code in TRANSIENT:
            self.out.tell(Later(self._create))
        else:
            text = "\n".join([str(self._create["input"]), *self._waiting])
            self._create, self._cancel_create = None, False
            self._waiting.clear()
            self.out.tell(Refused(code, message, text))

    def _steer_refused(self, frame: Frame) -> None:
        back = self._steering.refused(frame)
        if back is None:
            self._following = self._following and "id" not in frame["steer"]
            return
        run = self._runs.get(back[0])
        if run is not None and not run.is_over:
            self._waiting.append(back[1])  # its end is on the way, and sends what waits
            self._following = True
        else:
            self.say(back[1])


def _attach(run: ChatRun) -> Frame:
    return {"type": "antiphon:attach", "id": f"attach:{run.id}", **run.cursor.position()}


def _cancel(run_id: str) -> Frame:
    return {"type": "antiphon:cancel", "id": f"cancel:{run_id}", "response_id": run_id, "reason": "Ctrl-C"}
