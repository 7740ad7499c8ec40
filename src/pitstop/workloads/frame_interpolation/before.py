"""What slow.py does, in the shape of fast.py: only to run the edits one by one."""


def always(*_: object) -> bool:
    """The discriminator learns from the first step on, and from nothing."""
    return True
