"""`dsepconv` as a change: what computes the same gets our kernel, and nothing else does."""

import importlib
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from pitstop.core.evidence import Evidence, Kernel
from pitstop.scan import dsepconv_by_cupy
from pitstop.scan.dsepconv_by_cupy import is_dsepconv
from pitstop.tune.change import find_change
from pitstop.tune.patch.patch import make_patch
from pitstop.tune.plan import Wanted
from tune.running import run
from tune.sourced import write

CHANGE = "dsepconv"
SCRIPT = """
import torch
from pitstop.parts.dsepconv import dsepconv_twin

class Sepconv(torch.autograd.Function):  # a kernel of its own is handed tensor.data_ptr()
    @staticmethod
    def forward(ctx, image, *fields):
        ctx.save_for_backward(image, *fields)
        return compute(image, *fields)

    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            inputs = [each.detach().requires_grad_() for each in ctx.saved_tensors]
            grads = torch.autograd.grad(compute(*inputs), inputs[1:], gradient)
        return torch.zeros_like(inputs[0]), *grads

def compute(image, vertical, horizontal, down, right, mask):
    return dsepconv_twin(image, vertical, horizontal, {arguments}, mask)

torch.manual_seed(0)
net = torch.nn.Conv2d(3, 3 + 3 + 27, 3, padding=1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(4):
    frame = torch.rand(2, 3, 8, 6)
    fields = net(frame).split((3, 3, 9, 9, 9), 1)
    padded = torch.nn.functional.pad(frame, (1, 1, 1, 1)).requires_grad_({learns})
    loss = Sepconv.apply(padded, *fields).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
SAME = SCRIPT.format(arguments="down, right", learns=False)
OTHER = SCRIPT.format(arguments="right, down", learns=False)
LEARNS = SCRIPT.format(arguments="down, right", learns=True)
NONE = "no deformable separable convolution by CuPy that computes what ours does"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def test_what_computes_the_same_gets_ours(folder):
    ran = run(folder, SAME, CHANGE)
    assert ran.code == 0, ran.complained
    assert (ran.outcome.applied, ran.outcome.declined) == (4, "")
    assert ran.numbers == pytest.approx(run(folder, SAME).numbers, rel=1e-5)


@pytest.mark.parametrize(
    ("source", "reason"),
    [(OTHER, NONE), (LEARNS, "the image needs a gradient, which the original leaves at zero")],
)
def test_what_computes_something_else_is_left_alone(folder, source, reason):
    ran = run(folder, source, CHANGE)
    assert ran.code == 0, ran.complained
    assert (ran.outcome.applied, ran.outcome.declined) == (0, reason)
    assert ran.numbers == run(folder, source).numbers


MODULE = '''
import cupy, torch
kernel_DSepconv_updateOutput = """
    extern "C" __global__ void kernel_DSepconv_updateOutput() { sum += 1; }
"""
@cupy.memoize()
def cupy_launch(name, kernel):
    return cupy.RawKernel(kernel, name)
class _FunctionDSepconv(torch.autograd.Function):
    @staticmethod
    def forward(self, input):
        return cupy_launch("kernel_DSepconv_updateOutput", kernel_DSepconv_updateOutput)
def FunctionDSepconv(*tensors):
    return _FunctionDSepconv.apply(*tensors)
'''


@pytest.fixture
def known(monkeypatch):
    """As if this were LDMVFI's file."""
    digest = dsepconv_by_cupy.digest(dsepconv_by_cupy.ast.parse(MODULE))
    monkeypatch.setattr(dsepconv_by_cupy, "KNOWN", {digest})


@pytest.mark.usefixtures("known")
def test_a_file_is_known_by_what_it_computes():
    assert is_dsepconv(MODULE)
    assert is_dsepconv(MODULE.replace("sum += 1;", "sum  +=\n1;  "))
    assert is_dsepconv(MODULE.replace("cupy.RawKernel(", "cupy.cuda.compile_with_cache("))
    assert not is_dsepconv(MODULE.replace("+= 1", "+= 2"))
    assert not is_dsepconv(MODULE.replace("apply(*tensors)", "apply(*tensors) * 2"))
    assert not is_dsepconv(MODULE + "def (")


@pytest.mark.skipif("PITSTOP_LDMVFI" not in os.environ, reason="PITSTOP_LDMVFI names no checkout")
def test_ldmvfis_own_file_is_known():
    path = Path(os.environ["PITSTOP_LDMVFI"]) / "cupy_module" / "dsepconv.py"
    assert is_dsepconv(path.read_text())


class Earnest:
    """What the change asks of a script that runs in earnest."""

    earnest = True

    def __init__(self):
        self.times, self.switches = 0, []

    def applied(self):
        self.times += 1

    def switch(self, on, off):
        on()
        self.switches.append(off)

    def needs(self, what):
        pass

    def on_kernel(self, callback):
        pass


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("text", [MODULE, MODULE.replace("+= 1", "+= 2")])
def test_without_cupy_a_known_file_is_ours_and_an_unknown_one_as_ever(tmp_path, monkeypatch, text):
    package = tmp_path / "by_cupy"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "dsepconv.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "cupy", None)  # its import fails
    for name in ("by_cupy", "by_cupy.dsepconv"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    script = Earnest()
    find_change(CHANGE).apply(script)
    try:
        if text is MODULE:
            found = importlib.import_module("by_cupy.dsepconv")
            ours = importlib.import_module("pitstop.parts.dsepconv")
            assert found.FunctionDSepconv is ours.FunctionDSepconv
            assert found.ModuleDSepconv is ours.ModuleDSepconv
        else:
            with pytest.raises(ImportError, match="cupy"):
                importlib.import_module("by_cupy.dsepconv")
        assert script.times == (text is MODULE)
    finally:
        for off in script.switches:
            off()
    assert not any(type(each).__name__ == "_Finder" for each in sys.meta_path)


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from by_cupy import dsepconv", "from pitstop.parts import dsepconv"),
        ("from by_cupy import dsepconv as d", "from pitstop.parts import dsepconv as d"),
        ("import by_cupy.dsepconv as d", "from pitstop.parts import dsepconv as d"),
        (
            "from by_cupy.dsepconv import FunctionDSepconv as f",
            "from pitstop.parts.dsepconv import FunctionDSepconv as f",
        ),
        ("import by_cupy.dsepconv", None),
        ("from by_cupy import dsepconv, other", None),
        ("from elsewhere import dsepconv", None),
    ],
)
def test_the_patch_imports_ours(tmp_path, before, after):
    write(tmp_path, train=f"import torch\n{before}\n")
    (tmp_path / "by_cupy").mkdir()
    (tmp_path / "by_cupy" / "dsepconv.py").write_text(MODULE)
    patch = make_patch((Wanted(CHANGE),), Evidence(), ["train.py"], tmp_path)
    added = [each[1:] for each in patch.text.splitlines() if each.startswith("+")][1:]
    assert added == ([after] if after else [])
    assert bool(patch.unplaced) == (after is None)


def test_it_is_not_tried_where_no_such_kernel_ran():
    useless = find_change(CHANGE).when.useless
    assert useless(Evidence(kernels=(Kernel("elementwise", 1, 1.0),)))
    assert not useless(Evidence(kernels=(Kernel("kernel_DSepconv_updateOutput", 1, 1.0),)))
    assert not useless(Evidence())
