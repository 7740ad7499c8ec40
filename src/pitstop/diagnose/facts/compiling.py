"""Compiling: what Dynamo says about its troubles, as short as a sentence needs it."""

import re

END = re.compile(r"\.?\s+(?:Explanation|Hint|Developer debug context|User code traceback)\b|\n")
LONGEST = 160  # characters; the rest repeats what the line itself shows


def first_words(reason: str) -> str:
    """The first sentence of an explanation, without its full stop."""
    text = END.split(reason.strip(), maxsplit=1)[0].partition(". ")[0].rstrip(".")
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()} ..."
