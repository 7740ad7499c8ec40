"""Journal: every finished run of a search on disk, so that an interrupted search can go on.

A search takes the same decisions when it is given the same answers. So it begins anew, and what is
written here is answered from the disk instead of being run again.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, takewhile
from pathlib import Path

from pitstop.compare.pairs import Pairs
from pitstop.compare.quantities import Sample
from pitstop.core import store
from pitstop.core.evidence import Evidence
from pitstop.core.trial import Verdict
from pitstop.tune.plan import Toggle
from pitstop.tune.track import Changes, Checked, Patience, RunError, Track, forever, label

UNTOUCHED = "untouched"
ALONE = "sample "  # a question whose answer is one half of a pair
EACH = "each of the last"
SEEDS = "seeds"
KINDS = ("check", "check and blocks", SEEDS, "blocks", "sample", EACH)  # of questions about changes


@dataclass(frozen=True, slots=True)
class Entry:
    """One question of a search and its answer, or that the run came to nothing."""

    question: str  # "check tf32 + loader workers=2"
    checked: Checked = field(default_factory=Checked)
    evidence: Evidence = field(default_factory=Evidence)
    batch: int | None = None
    lines: tuple[str, ...] = ()  # what the script printed
    before_ms: tuple[float, ...] = ()
    after_ms: tuple[float, ...] = ()
    pairs: tuple[int, ...] = ()  # of each change, where several are in these
    failed: Verdict | None = None
    note: str = ""
    took_s: float = 0.0


class Journal:
    """A track that writes down each answer of another one, and knows those of before."""

    def __init__(self, track: Track, folder: Path) -> None:
        self._track = track
        self._folder = folder
        self._known: dict[str, deque[Entry]] = defaultdict(deque)
        files = sorted(folder.glob("run-*.json"))
        for entry in _whole([store.load(path, Entry) for path in files]):
            self._known[entry.question].append(entry)
        self._written = len(files)
        self.known_s = sum(each.took_s for known in self._known.values() for each in known)

    def check(
        self,
        changes: Changes,
        toggle: Toggle | None = None,
        patience_s: Patience = forever,
        new: int = 1,
    ) -> Checked:
        """The numbers of a run with these changes."""

        def ask() -> Entry:
            return Entry("", checked=self._track.check(changes, toggle, patience_s, new))

        kind = f"check and {_blocks(toggle)}" if toggle else "check"
        return self._answer(_question(kind, changes), ask).checked

    def over_seeds(self, changes: Changes) -> Checked:
        """The verdict on numbers that a check left open."""

        def ask() -> Entry:
            return Entry("", checked=self._track.over_seeds(changes))

        return self._answer(_question(SEEDS, changes), ask).checked

    def sample(self, changes: Changes) -> Sample:
        """The times of a run with these changes."""

        def ask() -> Entry:
            found = self._track.sample(changes)
            return Entry("", evidence=found.evidence, batch=found.batch, lines=found.lines)

        entry = self._answer(_question("sample", changes), ask)
        return Sample(entry.evidence, entry.batch, entry.lines)

    def blocks(self, changes: Changes, toggle: Toggle) -> Pairs[float]:
        """The times of blocks without and with the last changes."""

        def ask() -> Entry:
            found = self._track.blocks(changes, toggle)
            return Entry("", before_ms=found.before, after_ms=found.after)

        entry = self._answer(_question(_blocks(toggle), changes), ask)
        return Pairs(entry.before_ms, entry.after_ms)

    def each(self, changes: Changes, toggle: Toggle) -> tuple[Pairs[float], ...]:
        """The times of blocks without and with each of the last changes."""

        def ask() -> Entry:
            found = self._track.each(changes, toggle)
            return Entry(
                "",
                before_ms=tuple(chain(*(each.before for each in found))),
                after_ms=tuple(chain(*(each.after for each in found))),
                pairs=tuple(len(each.before) for each in found),
            )

        entry = self._answer(_question(EACH, changes), ask)
        ends = list(accumulate(entry.pairs))
        return tuple(
            Pairs(entry.before_ms[end - number : end], entry.after_ms[end - number : end])
            for end, number in zip(ends, entry.pairs, strict=True)
        )

    def knows(self, changes: Changes) -> bool:
        """Whether another answer with these changes is there, to whatever question."""
        return any(self._known.get(_question(kind, changes)) for kind in KINDS)

    def left_s(self) -> float:
        """What is left of the budget, with what the answers on the disk that are to come took.

        So a search that is resumed has room for all that it knows already, and decides as before;
        from its first new question on, only what is really left counts.
        """
        return self._track.left_s() + self.known_s

    def _answer(self, question: str, ask: Callable[[], Entry]) -> Entry:
        if self._known[question]:
            entry = self._known[question].popleft()
            self.known_s = max(0.0, self.known_s - entry.took_s)
        else:
            self.known_s = 0.0
            for other in [each for each in self._known if each.startswith(ALONE)]:
                del self._known[other]  # no partner of what runs in another hour
            before_s = self._track.left_s()
            try:
                entry = ask()
            except RunError as error:
                if error.hasty:
                    raise  # a search that is resumed has more time
                entry = Entry("", failed=error.verdict, note=error.note)
            self._written += 1
            took_s = before_s - self._track.left_s()
            entry = replace(entry, question=question, took_s=took_s)
            store.save(self._folder / f"run-{self._written:04}.json", entry)
        if entry.failed:
            raise RunError(entry.failed, entry.note)
        return entry


def _whole(entries: list[Entry]) -> list[Entry]:
    """Without the last, where the search was interrupted in the midst of a pair."""
    halves = takewhile(lambda each: each.question.startswith(ALONE), reversed(entries))
    number = sum(1 for each in halves if not each.failed)
    return entries[: len(entries) - number % 2]


def _blocks(toggle: Toggle) -> str:
    return f"blocks of the last {toggle.changes}" if toggle.changes > 1 else "blocks"


def _question(kind: str, changes: Changes) -> str:
    return f"{kind} {' + '.join(map(label, changes)) or UNTOUCHED}"
