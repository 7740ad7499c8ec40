"""Why a call runs as it is, instead of being replayed."""

from enum import Enum


class Reason(Enum):
    """One reason each; its value is what people read."""

    FIRST = "the first calls of each kind run as they are"
    RARE = "calls are of more kinds than graphs are kept for"
    NOT_CUDA = "its weights are not on one CUDA GPU, which is the current one"
    ARGUMENT = "it is given something else than tensors on its GPU and plain values"
    HOOKED = "it has hooks, which a replay would leave out"
    MODE = "torch is traced, transformed or listened to"
    THREAD = "another thread or stream calls it"
    BACKWARD = "it is called inside a backward pass"
    PENDING = "the backward pass of an earlier call is still to come"
    NO_BACKWARD = "no backward pass of it reaches all that it returns"
    TWICE = "its gradients are differentiated again, or taken under autocast"
    RANKS = "it learns in several processes"
    ELSEWHERE = "it learns by a weight that is not where its modules keep theirs"
    WAITS = "it waits for the GPU on its way"
    CHANGES_ITSELF = "it, or its place in memory, changes from call to call"
    DRAWS = "it draws random numbers on the CPU"
    PRINTS = "it prints"
    CHANGES_INPUTS = "it changes what it is given"
    RETURNS = "it returns something else than new tensors and plain values"
    FAILED = "it cannot be captured"


class Declined(Exception):  # noqa: N818 (no error: the model runs as it is)
    """A call, or all of its kind, cannot be replayed."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail

    def __str__(self) -> str:
        return f"{self.reason.value} ({self.detail})" if self.detail else self.reason.value
