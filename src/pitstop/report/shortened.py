"""Shortened: texts cut to the room that a column has, with a mark where something is missing."""

CUT = "…"


def cut_end(text: str, room: int) -> str:
    """The text without its end, where it is too long."""
    return text if len(text) <= room else text[: max(0, room - 1)].rstrip() + CUT


def cut_front(text: str, room: int) -> str:
    """The text without its front: of a path, its end says most."""
    return text if len(text) <= room else CUT + text[len(text) - max(0, room - 1) :]
