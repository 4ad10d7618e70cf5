"""`antiphon chat`: talk with a model from a terminal, through lost connections and restarts of the server."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from antiphon.cli.client.chat import wording
from antiphon.cli.client.chat.one_at_a_time import OneAtATime
from antiphon.cli.client.chat.session import ChatSession
from antiphon.cli.client.chat.told import Before, Fatal, Later, Refused, Told
from antiphon.cli.client.chat_view import ChatView
from antiphon.cli.client.credentials import with_key
from antiphon.cli.client.endpoint import Endpoint
from antiphon.cli.client.exits import INTERRUPTED, nobody_reads
from antiphon.cli.client.link import Link, Lost, Opened
from antiphon.cli.client.pages import Pages, open_pages
from antiphon.cli.client.printable import one_line, printable
from antiphon.cli.client.questions import ASK_PERSON, ASK_PERSON_TOOL, Unanswerable, declared
from antiphon.cli.client.screen import FAULT, Screen, screen_of_the_terminal
from antiphon.errors import ClientError

LATER_S = 1.0
"""Until a frame is sent again that the server could not take."""
SHOWN_TURNS = 5
"""Of what was said before, when somebody comes back."""
_BUILT_IN = "antiphon/"
_DEMO = "antiphon/demo"


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """What was asked for on the command line. tools: names the person answers by hand."""

    url: str
    model: str | None = None
    agent: str | None = None
    conversation_id: str | None = None
    attach: str | None = None
    tools: Sequence[str] = field(default_factory=tuple)


def chat(options: ChatOptions) -> int:
    """Chat until the person leaves; gives the exit status. Raises ClientError."""
    endpoint = Endpoint.read(options.url)
    try:
        return with_key(endpoint, lambda key: asyncio.run(_chat(options, endpoint, key)))
    except BrokenPipeError:
        return nobody_reads()


async def _chat(options: ChatOptions, endpoint: Endpoint, key: str | None) -> int:
    return await converse(options, endpoint, key, screen_of_the_terminal())


async def converse(options: ChatOptions, endpoint: Endpoint, key: str | None, screen: Screen) -> int:
    """Chat on this screen until the person leaves; gives the exit status. Raises ClientError."""
    names = list(dict.fromkeys([ASK_PERSON, *options.tools]))
    session = ChatSession(
        mint=lambda: uuid.uuid4().hex,
        model=options.model,
        agent=options.agent,
        tools=[ASK_PERSON_TOOL if name == ASK_PERSON else declared(name) for name in names],
        conversation_id=options.conversation_id,
        attach=options.attach,
    )
    link = Link(endpoint, name="antiphon-chat", key=key, tools=names)
    async with open_pages(endpoint, key) as pages:
        return await _Chat(session, link, pages, screen, endpoint).run()


class _Chat:
    """Carries frames, lines and signals between the server, the person and the session."""

    def __init__(self, session: ChatSession, link: Link, pages: Pages, screen: Screen, endpoint: Endpoint) -> None:
        self._session = session
        self._link = link
        self._pages = pages
        self._screen = screen
        self._endpoint = endpoint
        self._order = OneAtATime()
        self._showing = asyncio.Lock()
        self._changed = asyncio.Event()
        self._ready = asyncio.Event()
        self._later: set[asyncio.Task[None]] = set()
        self._view = ChatView(screen, pages)
        self._stopping = False
        self._interrupted = False

    async def run(self) -> int:
        """Until the person leaves. Raises ClientError."""
        tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._listen())]
        with self._screen.taken(), self._signals(tasks[1]):
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (*tasks, *self._later):
                    task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result
        self._say_how_to_come_back()
        if self._interrupted:
            return INTERRUPTED
        return 0 if self._screen.interactive or self._view.went_well else 1

    # From the server

    async def _follow(self) -> None:
        cut_off = False
        async with contextlib.aclosing(self._link.happenings()) as happenings:
            async for happening in happenings:
                if isinstance(happening, Opened):
                    self._session.opened(happening.connection)
                    if cut_off:
                        self._screen.lines(["connected again"], amid=True)
                    cut_off = False
                elif isinstance(happening, Lost):
                    if not cut_off:
                        self._screen.lines([f"{printable(happening.why)}; trying to come back"], amid=True)
                    cut_off = True
                    for task in self._later:
                        task.cancel()
                else:
                    self._session.take(happening)
                await self._flush()
                if self._session.is_ready:
                    self._ready.set()

    async def _flush(self) -> None:
        while told := self._send():  # what is shown may lead to more
            async with self._showing:
                for one in told:
                    for shown in self._order.add(one):
                        await self._show(shown)
        self._stopping = self._stopping and self._session.is_busy
        self._changed.set()

    def _send(self) -> list[Told]:
        """Send what is to be sent; gives what is to be shown."""
        frames, told = self._session.out.drain()
        for frame in frames:
            self._link.send(frame)
        return told

    async def _show(self, told: Told) -> None:
        if isinstance(told, Refused):
            await self._refused(told)
        elif isinstance(told, Before):
            await self._show_before(told)
        elif isinstance(told, Later):
            task = asyncio.create_task(self._send_later(told))
            self._later.add(task)
            task.add_done_callback(self._later.discard)
        elif isinstance(told, Fatal):
            raise ClientError(told.message, code=told.code)
        else:
            await self._view.show(told)

    async def _send_later(self, later: Later) -> None:
        await asyncio.sleep(LATER_S * (0.5 + random.random()))
        self._link.send(later.frame)

    async def _show_before(self, told: Before) -> None:
        try:
            newest = told.run_id if told.is_ended else await self._pages.parent(told.run_id)
            turns = await self._pages.turns(newest, SHOWN_TURNS)
        except ClientError as error:
            self._screen.lines([f"what was said before cannot be read: {error.message}"], FAULT)
            return
        self._view.show_turns(turns)
        # A failed response cannot be continued (5.4.3); the one before it can.
        whole = [turn.response_id for turn in turns if turn.status != "failed"]
        if told.is_ended:
            self._session.continue_from(whole[-1] if whole else None)

    async def _refused(self, told: Refused) -> None:
        if told.code == "model_required" and told.text is not None and (model := await self._choose_model()):
            self._screen.lines([f"answered by {one_line(model)}; /model NAME chooses another"])
            self._session.model = model
            self._session.say(told.text)
            return
        self._view.went_well = False
        self._screen.lines([one_line(told.message, 400)], FAULT)
        if told.text is not None:
            self._screen.give_back(told.text)

    async def _choose_model(self) -> str | None:
        """A model of the operator's, else the demo; None where one was named."""
        if self._session.model is not None:
            return None
        models = await self._models()
        return next((model for model in models if not model.startswith(_BUILT_IN)), _DEMO if models else None)

    async def _models(self) -> list[str]:
        try:
            return await self._pages.models()
        except ClientError as error:
            self._screen.lines([one_line(error.message, 400)], FAULT)
            return []

    # From the person

    async def _listen(self) -> None:
        await self._ready.wait()
        if self._screen.interactive:
            self._screen.lines([f"connected to {self._endpoint.origin}; /help says what can be typed"])
        while True:
            try:
                line = await self._screen.read(self._hint)
            except EOFError:
                await self._until_said()
                return
            except KeyboardInterrupt:
                if not await self._interrupt():
                    return
                continue
            if not self._screen.interactive:
                await self._until(lambda: bool(self._session.questions) or not self._session.is_busy)
            if line.strip() == "/quit":
                return
            await self._typed(line)

    def _hint(self) -> str:
        if self._session.questions:
            return self._session.questions[0].hint
        return "steer" if self._session.is_busy else ""

    async def _typed(self, line: str) -> None:
        if questions := self._session.questions:
            try:
                self._session.answer(questions[0], line)
            except Unanswerable as error:
                self._screen.lines([str(error)])
        elif line.startswith("/"):
            await self._command(line)
        elif line.strip():
            self._session.say(line)
        await self._flush()

    async def _command(self, line: str) -> None:
        command, _, rest = line.partition(" ")
        if command == "/new" and self._session.is_busy:
            self._screen.lines(["not while an answer is under way"])
        elif command == "/new":
            self._session.anew()
            self._screen.lines(["a new conversation"])
        elif command == "/model" and rest.strip():
            self._session.model = rest.strip()
        elif command == "/model":
            self._screen.lines([one_line(model) for model in await self._models()])
        elif command == "/where":
            self._say_how_to_come_back()
        else:
            self._screen.lines(wording.HELP.split("\n"))

    async def _until_said(self) -> None:
        """Nothing more is typed: a pipe waits for the answer, a person has left."""
        if not self._screen.interactive:
            await self._until(lambda: bool(self._session.questions) or not self._session.is_busy)
            if self._session.questions:
                self._screen.lines(["nobody is here to answer it; it goes on waiting"], FAULT)
                self._view.went_well = False

    async def _until(self, true: Callable[[], bool]) -> None:
        while not true():
            self._changed.clear()
            await self._changed.wait()

    async def _interrupt(self) -> bool:
        """Ctrl-C: first it stops the answer, then it leaves. Whether to go on."""
        if self._stopping or not self._session.cancel():
            return False
        self._stopping = True
        self._screen.lines(["stopping; Ctrl-C again leaves"])
        await self._flush()
        return True

    @contextlib.contextmanager
    def _signals(self, listening: asyncio.Task[None]) -> Iterator[None]:
        """Leave in order when told to; without a line to type in, Ctrl-C comes as a signal too."""
        loop = asyncio.get_running_loop()
        acting: set[asyncio.Task[None]] = set()

        async def act() -> None:
            if not await self._interrupt():
                self._interrupted = True
                listening.cancel()

        def on_interrupt() -> None:
            task = asyncio.create_task(act())
            acting.add(task)
            task.add_done_callback(acting.discard)

        handlers: dict[int, Callable[[], object]] = {
            signal.SIGTERM: listening.cancel,
            signal.SIGHUP: listening.cancel,
        }
        if not self._screen.interactive:
            handlers[signal.SIGINT] = on_interrupt
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    def _say_how_to_come_back(self) -> None:
        conversation_id = self._session.conversation_id
        if conversation_id is not None:
            live = self._session.live
            page = self._endpoint.page(conversation_id)
            self._screen.lines(wording.way_back(page, conversation_id, live.id if live is not None else None))
