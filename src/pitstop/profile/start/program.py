"""Program: what this process of Python was started to run, by its command line."""

import sys
from pathlib import Path

LAUNCHERS = {"accelerate", "accelerate-launch", "deepspeed", "fabric", "torchrun"}
LAUNCHER_MODULES = ("accelerate.", "deepspeed.", "lightning.fabric.", "torch.distributed.")
HELPERS = ("from multiprocessing.", "from joblib.externals.loky.")  # as they start a Python


def is_launcher(name: str) -> bool:
    """Whether a command starts the script itself, in processes of its own."""
    return Path(name).name.removesuffix(".exe") in LAUNCHERS


def runs_the_script() -> bool:
    """Whether this is the user's program: not a launcher of it, nor a helper of multiprocessing."""
    how, program = sys.argv[0], sys.orig_argv[-len(sys.argv)]
    if how == "-c":
        return not program.startswith(HELPERS)
    if how == "-m":
        return not f"{program}.".startswith(LAUNCHER_MODULES)
    return not is_launcher(program)
