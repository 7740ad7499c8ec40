"""What Python imports first in a profiled process: attach the recorder, then get out of the way.

``launch`` puts this folder in front of ``PYTHONPATH``. The script must not notice, so the folder
leaves the path again, and the user's own ``sitecustomize`` takes the place of this one at the end.
Pitstop is loaded from where this file lies: the interpreter may have none, or another version.
"""

import contextlib
import os
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_HERE = os.path.dirname(os.path.abspath(__file__))
_SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))
sys.path[:] = [entry for entry in sys.path if entry != _HERE]

try:
    _spec = PathFinder.find_spec("pitstop", [_SOURCE])
    assert _spec
    assert _spec.loader
    sys.modules["pitstop"] = module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["pitstop"])
    from pitstop.profile.start.attach import attach

    attach()
except Exception as error:  # noqa: BLE001 our failure is one line and never the end of the run
    with contextlib.suppress(Exception):
        sys.stderr.write(f"pitstop: not recording: {type(error).__name__}: {error}\n")

del sys.modules["sitecustomize"]
import_module("sitecustomize")  # where there is none this fails, as `site` expects it to
