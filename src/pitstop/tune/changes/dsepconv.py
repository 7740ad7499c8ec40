"""Change `dsepconv`."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pitstop.core.evidence import Evidence
from pitstop.scan.dsepconv_by_cupy import OFFERED, is_dsepconv
from pitstop.tune.change import When, change

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

NAMED = "sepconv"  # kernels, functions and files of this kind have it in their names
FIELDS = 6  # an image, two kernels, two offsets and a mask
IMAGE_LEARNS = "the image needs a gradient, which the original leaves at zero"


def useless(evidence: Evidence) -> str:
    """A reason where kernels were seen and none of them is of this kind; else empty."""
    names = [each.name.lower() for each in evidence.kernels]
    known = not names or any(NAMED in each for each in names)
    return "" if known else "no deformable separable convolution by a kernel of its own"


@change("rounding", toggles=True, when=When(device="cuda", useless=useless, usual=0.05))
def dsepconv(script: "Script") -> None:
    """Compute deformable separable convolutions by our kernel in the place of CuPy's.

    It pays in LDMVFI, EDSC and what has their kernel: CuPy's rewrites its source at each call and
    has six kernels for the backward pass, where ours has one. Whether a function computes the same
    is told by its source, else by a trial with its gradients; SepConv and AdaCoF do not. `pitstop
    run` needs no CuPy for files whose source tells.
    """
    script.needs("deformable separable convolution by CuPy that computes what ours does")

    def define(function: Any) -> None:
        tried: dict[Any, bool] = {}
        known = is_dsepconv(_text_of(function))
        script.patch(function, "apply", partial(_instead, script, known, tried))

    script.on_kernel(define)
    if script.earnest and importlib.util.find_spec("cupy") is None:
        finder = _Finder(script)
        script.switch(lambda: sys.meta_path.insert(0, finder), finder.leave)


def _instead(
    script: "Script",
    known: bool,
    tried: dict[Any, bool],
    original: Callable[..., Any],
    *given: Any,
    **named: Any,
) -> Any:
    """Ours, where it computes the same; else what was there."""
    from pitstop.parts import dsepconv as ours  # noqa: PLC0415 needs torch
    from pitstop.parts.dsepconv.alike import computes_the_same, fits  # noqa: PLC0415 likewise

    if named or len(given) != FIELDS or not fits(given):
        return original(*given, **named)
    image, vertical = given[:2]
    if not known:
        kind = image.shape[1], vertical.shape[1], image.device
        if kind not in tried:
            tried[kind] = computes_the_same(original, *kind)
        if not tried[kind]:
            return original(*given)
    if image.requires_grad and script.torch.is_grad_enabled():
        script.decline(IMAGE_LEARNS)
        return original(*given)
    script.applied()
    return ours.dsepconv(*given)


def _text_of(function: Any) -> str:
    path = getattr(sys.modules.get(function.__module__), "__file__", None)
    return _read(path) if path else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class _Finder(MetaPathFinder):
    """Finds ours where a file would compute the same, had it CuPy."""

    def __init__(self, script: "Script") -> None:
        self._script = script

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """For files of this kind only; all others are found as ever."""
        if NAMED not in name.lower():
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or not spec.origin or not is_dsepconv(_read(spec.origin)):
            return None
        return importlib.util.spec_from_file_location(name, spec.origin, loader=_Loader(self))

    def found(self) -> None:
        """Ours was imported."""
        self._script.applied()

    def leave(self) -> None:
        """Find nothing more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class _Loader(Loader):
    """Fills a module with what ours has under the names of the original."""

    def __init__(self, finder: _Finder) -> None:
        self._finder = finder

    def create_module(self, spec: ModuleSpec) -> None:
        """As usual."""

    def exec_module(self, module: ModuleType) -> None:
        """In place of its source."""
        from pitstop.parts import dsepconv as ours  # noqa: PLC0415 needs torch

        for name in sorted(OFFERED):
            setattr(module, name, getattr(ours, name))
        self._finder.found()
