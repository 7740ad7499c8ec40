"""Products of attention that are written as equations of ``einsum``."""

import re
from functools import lru_cache

LETTERS = re.compile(r"[a-zA-Z]{3,}")


@lru_cache(maxsize=256)
def is_scores(equation: str) -> bool:
    """Whether it is ``...id, ...jd -> ...ij``: what is summed up is last in both."""
    return _is(equation, summed_in_second=-1)


@lru_cache(maxsize=256)
def is_answer(equation: str) -> bool:
    """Whether it is ``...ij, ...jd -> ...id``."""
    return _is(equation, summed_in_second=-2)


def _is(equation: str, summed_in_second: int) -> bool:
    """Whether two stacks of matrices are multiplied, and their last letter but one stays."""
    given, _, result = equation.replace(" ", "").partition("->")
    terms = [*given.split(","), result]
    if len(terms) != 3 or not all(LETTERS.fullmatch(each) for each in terms):
        return False
    first, second = terms[:2]
    other = second[-3 - summed_in_second]  # -1 and -2 change places
    return (
        first[-1] == second[summed_in_second]
        and first[:-2] == second[:-2]
        and result == first[:-1] + other
        and len({*first, other}) == len(first) + 1
    )
