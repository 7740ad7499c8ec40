"""What Python imports first in a profiled process: attach the recorder, then get out of the way.

``launch`` puts this folder in front of ``PYTHONPATH``. The script must not notice, so the path is
cleaned again here, and a ``sitecustomize`` of the user's own is run as if this one did not exist.
"""

import os
import sys
from importlib.machinery import PathFinder

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if entry != _HERE]

_source = os.environ.get("PITSTOP_SOURCE", "")
sys.path.append(_source)  # the interpreter of a torchrun may have no Pitstop of its own
try:
    from pitstop.profile.attach import attach

    attach()
except Exception as error:  # noqa: BLE001 our failure is one line and never the end of the run
    sys.stderr.write(f"pitstop: not recording: {type(error).__name__}: {error}\n")
finally:
    sys.path.remove(_source)

_spec = PathFinder.find_spec("sitecustomize", sys.path)
if _spec and _spec.loader and _spec.origin != os.path.abspath(__file__):
    _spec.loader.exec_module(sys.modules[__name__])
