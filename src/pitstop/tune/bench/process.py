"""Process: the parent's side of one bench, from its start to its end."""

import json
import queue
import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

from pitstop.compare.record import COMPLAINED, PRINTED, Recording
from pitstop.profile.read import runs
from pitstop.profile.start import guardian, launch
from pitstop.profile.start.options import UNKNOWN, Options, StepEnds
from pitstop.tune.bench.questions import BEGIN, Answer, BenchPlan, Question, answer_of
from pitstop.tune.runs.endings import Ending, ending
from pitstop.tune.runs.trials import Settings, place
from pitstop.tune.sandbox.refusals import explained

LISTENS_S = 0.1  # between two looks whether the process still lives
ENDS_S = 2.0  # that a process gets to end by itself before it is killed
NAME = "bench"


class EndedError(Exception):
    """The process has ended; by itself, or because of what it was asked."""

    def __init__(self, how: Ending) -> None:
        super().__init__(how.error)
        self.how = how


@dataclass(frozen=True, slots=True)
class Start:
    """How to start the script."""

    words: tuple[str, ...]
    folder: Path
    plan: BenchPlan  # without its address, which is that of one start
    step_ends: StepEnds = UNKNOWN
    in_place: bool = False
    compiled: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class Process:
    """One running bench. Each rank of the script has a connection of its own."""

    def __init__(self, start: Start, patience_s: float) -> None:
        self._stack = ExitStack()
        self._folder = start.folder.absolute()
        self._lines: list[Connection] = []
        self._arrived: queue.Queue[Connection] = queue.Queue()
        try:
            self._begin(start)
            self.outcomes = self._gather(patience_s).outcomes
        except BaseException:
            self.close()
            raise

    def ask(self, question: Question, patience_s: float) -> Answer:
        """What comes of a question; ``EndedError`` where the process does not survive it."""
        text = json.dumps(asdict(question)).encode()
        for line in self._lines:
            with suppress(OSError):  # it has ended, as the answer will tell
                line.send_bytes(text)
        return self._gather(patience_s)

    def close(self) -> None:
        """End it, and leave nothing behind."""
        for line in self._lines:
            line.close()
        self._stack.close()

    def _begin(self, start: Start) -> None:
        settings = Settings(
            environment=start.environment, in_place=start.in_place, compiled=start.compiled
        )
        self._place = self._stack.enter_context(place(self._folder, settings))
        key = secrets.token_hex(16)
        listener = Listener(str(self._place.box.temporary / NAME), authkey=bytes.fromhex(key))
        self._stack.callback(listener.close)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        plan = replace(start.plan, address=str(listener.address), key=key)
        words = list(start.words)
        options = Options(
            folder=str(self._folder),
            step_ends=start.step_ends,
            inspect=0,
            also=((BEGIN, plan.to_json()),),
        )
        output = tuple(
            self._stack.enter_context((self._folder / each).open("wb"))
            for each in (PRINTED, COMPLAINED)
        )
        guard = self._stack.enter_context(guardian.guard())
        apart = self._place.apart(start.plan.seed)
        self._words = start.words
        self._process = launch.start(words, options, output, apart)  # type: ignore[arg-type]
        guard.watch(self._process.pid)
        self._stack.callback(self._end)

    def _accept(self, listener: Listener) -> None:
        with suppress(OSError, EOFError):  # closed at the end
            while True:
                self._arrived.put(listener.accept())

    def _gather(self, patience_s: float) -> Answer:
        """The answers of all ranks as one."""
        begun = time.monotonic()
        answers: list[Answer] = []
        of = max(1, len(self._lines))
        while len(answers) < of:
            if len(answers) >= len(self._lines):
                line = self._next_rank(begun, patience_s)
                of = self._receive(line, begun, patience_s)["of"]
                self._lines.append(line)
            fields = self._receive(self._lines[len(answers)], begun, patience_s)
            answers.append(answer_of(fields))
        return together(answers)

    def _next_rank(self, begun: float, patience_s: float) -> Connection:
        while True:
            with suppress(queue.Empty):
                return self._arrived.get(timeout=LISTENS_S)
            self._look(begun, patience_s)

    def _receive(self, line: Connection, begun: float, patience_s: float) -> dict[str, Any]:
        try:
            while not line.poll(LISTENS_S):
                self._look(begun, patience_s)
            fields: dict[str, Any] = json.loads(line.recv_bytes())
        except (EOFError, OSError):
            with suppress(Exception):
                self._process.wait(ENDS_S)
            self._place.killed = True
            raise EndedError(self._ending(begun, patience_s)) from None
        return fields

    def _look(self, begun: float, patience_s: float) -> None:
        """Whether it lives, and is in time."""
        if self._process.poll() is not None or time.monotonic() - begun > patience_s:
            raise EndedError(self._ending(begun, patience_s))

    def _ending(self, begun: float, patience_s: float) -> Ending:
        wall_s = time.monotonic() - begun
        code = self._process.poll()
        if code is None:
            launch.kill(self._process)
            code = self._process.wait()
        run = runs.Run(self._words, runs.now(), 0, code)
        recording = Recording(self._folder, run, runs.About(), ())
        ended = ending(recording, wall_s, patience_s)
        return explained(ended, self._place.refused(recording))

    def _end(self) -> None:
        if self._process.poll() is None:
            with suppress(Exception):
                self._process.wait(ENDS_S)
        self._place.killed = self._process.poll() != 0
        if self._process.poll() is None:
            launch.kill(self._process)
            self._process.wait()


def together(answers: list[Answer]) -> Answer:
    """What all ranks say as one: what is worst for one of them counts."""
    first, *rest = answers
    if not rest:
        return first
    rows = [each.distances for each in answers]
    most = {
        name: max((row.get(name, 0.0) for row in rows), key=abs) for name in sorted(first.distances)
    }
    peaks = [each.peak_bytes for each in answers if each.peak_bytes]
    times = [each.ms for each in answers if each.ms is not None]
    return replace(
        first,
        problem=next((each.problem for each in answers if each.problem), ""),
        wrong=next((each.wrong for each in answers if each.wrong), ""),
        distances=most,
        ms=max(times, default=None),
        peak_bytes=max(peaks, default=None),
        compiled=max(each.compiled for each in answers),
    )
