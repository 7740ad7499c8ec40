"""Answers: what the device said, read as soon as it is there; nobody waits for it."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(slots=True)
class _Asked:
    number: int
    answer: torch.Tensor  # on the host, pinned where a GPU writes it
    written: Any  # an event, or None where the answer is there


class Answers:
    """Flags of steps, in their order."""

    def __init__(self) -> None:
        self._asked: deque[_Asked] = deque()

    def ask(self, number: int, flag: torch.Tensor) -> None:
        """The answer for this step begins its way to the host."""
        if flag.device.type != "cuda":
            self._asked.append(_Asked(number, flag, None))
            return
        answer = torch.empty((), pin_memory=True)
        answer.copy_(flag, non_blocking=True)
        written = torch.cuda.Event()
        written.record(torch.cuda.current_stream(flag.device))
        self._asked.append(_Asked(number, answer, written))

    def known(self, wait: bool = False) -> Iterator[tuple[int, bool]]:
        """Steps whose answer is there, each once, and whether they were bad."""
        while self._asked:
            first = self._asked[0]
            if first.written is not None and not first.written.query():
                if not wait:
                    return
                first.written.synchronize()
            self._asked.popleft()
            yield first.number, bool(first.answer)
