"""``pitstop memory``: what a script's step will need of a GPU, seen before it is taken.

The script runs as ever until its model is called. From there on it goes on with stand-ins:
``begin`` puts fake tensors (shapes, no bytes) in the place of the real ones, inside the script's
process, and ``script_watch`` writes down each block that its own step makes, with its losses, its
autocast and its optimizers. After two steps, or a call without training, the process ends.
``plan`` is what the two processes tell each other; ``cards`` knows how much GPUs have; ``fits``
plays what was seen for other batches; ``to_text`` and ``to_page`` show it.
"""
