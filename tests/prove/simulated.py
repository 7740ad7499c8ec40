"""Runs that take what we say, with noise from a seed."""

import random

from pitstop.compare.quantities import Sample
from pitstop.core.evidence import Evidence, Step
from pitstop.prove.numbers import Numbers
from pitstop.prove.proof import Asked, timed
from pitstop.prove.story import Proof
from pitstop.prove.trees import Trees
from pitstop.tune.sandbox.copied_tree import Tree

TREES = Trees(Tree("", "", None), Tree("", "", None), "1a2b3c4d5e6f", "the working tree", ("a.py",))
HOLDS = Numbers(holds="every loss equal")


def run_of(ms):
    return Sample(Evidence(steps=(Step(ms),) * 8, warmup_steps=3), 4)


def proved(base_ms, edit_ms, noise=0.003, seed=0, most=24, **asked):
    """The proof of an edit whose steps take so long."""
    drawn = random.Random(seed)

    def sample(edit):
        return run_of((edit_ms if edit else base_ms) * (1 + drawn.gauss(0, noise)))

    return timed(Proof(TREES, HOLDS), Asked((), **asked), sample, most)
