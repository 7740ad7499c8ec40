"""What we touch of torch and Triton beside their documented doors is still there."""

import pytest
import torch

from pitstop import internals

OF_CUDA = {"torch._C._cuda_getDevice", "torch._C._cuda_getCurrentRawStream"}  # not in CPU builds


def test_this_version_of_torch_has_lost_none_of_the_private_names():
    allowed = set() if torch.version.cuda else OF_CUDA
    assert set(internals.lost()) <= allowed


def test_a_lost_name_is_told_and_breaks_only_who_uses_it(monkeypatch):
    monkeypatch.setattr(internals, "backward_pass", internals._found("_C._no_such_name"))
    monkeypatch.setitem(internals.CHECKS, "Module._no", lambda: torch.nn.ReLU()._no)
    assert {"torch._C._no_such_name", "Module._no"} <= set(internals.lost())
    with pytest.raises(AttributeError, match=r"torch [\d.]+\S* has no torch._C._no_such_name"):
        internals.backward_pass()


def test_the_newest_triton_that_was_tried_is_the_one_installed_or_newer():
    triton = pytest.importorskip("triton")
    major, minor, *_ = triton.__version__.split(".")
    assert internals.LAUNCH_KNOWN[1] >= (int(major), int(minor)), (
        "try tests/gpu/test_parts_group_norm.py with this Triton, then raise LAUNCH_KNOWN"
    )
