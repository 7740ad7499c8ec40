"""Secrets: values whose names say that they are nobody else's business are masked.

A command line is kept in recordings and shown in reports, which people send to each other. So
``--hf-token X``, ``HF_TOKEN=X``, ``{"api_key": "X"}`` and ``https://me:X@host`` keep all but X.
"""

import re
from collections.abc import Iterator, Sequence

MASK = "***"
ANYWHERE = {"secret", "password", "passwd", "passphrase", "credential", "credentials", "apikey"}
LAST = {
    "token",
    "key",
    "keys",
    "auth",
    "authorization",
    "bearer",
    "pw",
    "pwd",
}  # not key_frames
ENDINGS = ("token", "secret", "password", "apikey", "accesskey")  # of a word such as hftoken

PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")  # hf_token, hfToken, HF-TOKEN: hf, token
CREDENTIALS = re.compile(r"(://)(?!git@)[^/\s@\"']+@")
OPTION = re.compile(r"(?<!\S)(--?[A-Za-z][\w.-]*)(\s+)(?!-)(\S+)")
PAIR = re.compile(
    r"([\w.-]+)(=|[\"']\s*:\s*[\"']|:\s*(?:Bearer|Basic)\s+|:(?=\S))(?![=/])([^\s&\"',;]+)",
    re.IGNORECASE,
)
HEADER = re.compile(r"([\w-]+)(:\s+)(?!Bearer\b|Basic\b)\S.*")
LITERAL = re.compile(r"(\w+)([\"']?\]?\s*[:=]\s*[rbuf]*([\"']))((?:(?!\3).){8,})(?=\3)")


def is_secret(name: str) -> bool:
    """Whether the name of an option or a variable says that its value is a secret."""
    parts = [part.lower() for part in PART.findall(name)]
    return bool(parts) and (
        not ANYWHERE.isdisjoint(parts) or parts[-1] in LAST or parts[-1].endswith(ENDINGS)
    )


def masked_words(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command line without the secrets among them."""
    return tuple(_masked(words))


def masked_text(text: str) -> str:
    """A sentence or a quoted command without the secrets in it."""
    return OPTION.sub(_mask_last, PAIR.sub(_mask_last, CREDENTIALS.sub(rf"\1{MASK}@", text)))


def masked_source(line: str) -> str:
    """A line of source without the secrets that are written out in it; names are no secrets."""

    def mask(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2]}{MASK}" if is_secret(match[1]) else match[0]

    return LITERAL.sub(mask, CREDENTIALS.sub(rf"\1{MASK}@", line))


def is_masked(words: Sequence[str]) -> bool:
    """Whether the place of a secret holds the mask: these words cannot be run."""
    filled = [word.replace(MASK, "filled") for word in words]
    return any(
        MASK in word and full != hidden
        for word, full, hidden in zip(words, filled, masked_words(filled), strict=True)
    )


def _masked(words: Sequence[str]) -> Iterator[str]:
    option = ""
    for word in words:
        name, equals, value = word.partition("=")
        if option and not word.startswith("-"):
            yield MASK
        elif value and " " not in name and is_secret(name):
            yield f"{name}{equals}{MASK}"
        elif (header := HEADER.fullmatch(word)) and is_secret(header[1]):
            yield f"{header[1]}{header[2]}{MASK}"
        else:
            yield masked_text(word)
        option = word if word.startswith("-") and not equals and is_secret(word) else ""


def _mask_last(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2]}{MASK}" if is_secret(match[1]) else match[0]
