# mypy: disable-error-code="arg-type,no-untyped-def,no-untyped-call,override"
import copy
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pitstop.parts import fuse_group_norm

part = sys.modules["pitstop.parts.group_norm.fuse_group_norm"]


def swish(x):
    return x * torch.sigmoid(x)


class Consecutive(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, 4)
        self.act = nn.SiLU()

    def forward(self, x, *, double=False):
        h = x
        h = self.norm(h)
        h = self.act(h)
        return h * 2 if double else h


class Nested(Consecutive):
    def forward(self, x):
        return F.silu(self.norm(x)) + swish(self.norm(x))


class Function(Consecutive):
    def forward(self, x):
        h = self.norm(x)
        h = swish(h)
        h = self.norm(h)
        h = h * torch.sigmoid(h)
        return h


class Branches(Consecutive):
    def forward(self, x, twice=None):
        if twice is not None:
            x = x + twice
            x = self.norm(x)
        elif x.mean() > 100:
            return x
        else:
            x = self.norm(x)
        x = self.act(x)
        return x


class Other(Consecutive):
    """No pair: another activation, and a use in between."""

    def forward(self, x):
        h = self.norm(x)
        h = torch.relu(h)
        g = self.norm(x)
        kept = g
        g = self.act(g)
        return h + g + kept


@pytest.fixture
def calls(monkeypatch):
    """How often the part was called without and with SiLU."""
    counted = {False: 0, True: 0}
    real = part.group_norm_silu

    def count(*arguments, silu=True, **more):
        counted[silu] += 1
        return real(*arguments, silu=silu, **more)

    monkeypatch.setattr(part, "group_norm_silu", count)
    return counted


@pytest.mark.parametrize(
    ("kind", "plain", "fused"),
    [(Consecutive, 0, 1), (Nested, 0, 2), (Function, 0, 2), (Branches, 0, 1), (Other, 2, 0)],
)
def test_each_way_to_write_the_pair(calls, kind, plain, fused):
    block, x = kind(), torch.randn(2, 4, 3, 3)
    expected, names = block(x), list(block.state_dict())
    undo = fuse_group_norm(block)
    assert torch.allclose(block(x), expected, atol=1e-6)
    assert calls == {False: plain, True: fused}
    assert list(block.state_dict()) == names
    assert isinstance(block, kind)
    assert isinstance(block.norm, nn.GroupNorm)
    undo()
    assert (type(block), type(block.norm)) == (kind, nn.GroupNorm)
    assert torch.equal(block(x), expected)


def test_keyword_arguments_branches_and_line_numbers_survive():
    x = torch.randn(2, 4, 3, 3)
    for block, more in ((Consecutive(), {"double": True}), (Branches(), {"twice": x})):
        expected = block(x, **more)
        line = type(block).forward.__code__.co_firstlineno
        fuse_group_norm(block)
        assert torch.allclose(block(x, **more), expected, atol=1e-6)
        assert type(block).forward.__code__.co_firstlineno == line


def test_sequential_keeps_its_children(calls):
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4), nn.SiLU(), nn.GroupNorm(2, 4))
    x = torch.randn(2, 3, 5, 5)
    expected = model(x)
    undo = fuse_group_norm(model)
    assert torch.allclose(model(x), expected, atol=1e-6)
    assert calls == {False: 1, True: 1}
    assert [type(each).__name__ for each in model][2] == "SiLU"
    undo()
    assert type(model) is nn.Sequential


def test_a_hooked_norm_keeps_its_hook_and_its_silu(calls):
    block, seen = Consecutive(), []
    block.norm.register_forward_hook(lambda *_: seen.append(1))
    fuse_group_norm(block)
    block(torch.randn(1, 4, 2, 2))
    assert seen == [1]
    assert calls == {False: 1, True: 0}


def test_subclasses_of_group_norm_give_their_silu_only_if_they_compute_the_same(calls):
    class Upcast(nn.GroupNorm):
        def forward(self, x):
            return super().forward(x.float()).type(x.dtype)

    class Doubled(nn.GroupNorm):
        def forward(self, x):
            return 2 * super().forward(x)

    class FrameByFrame(nn.GroupNorm):
        def forward(self, x):
            if x.dim() < 5:
                return super().forward(x)
            return torch.stack([super(FrameByFrame, self).forward(f) for f in x.unbind(2)], 2)

    class ByItself(nn.GroupNorm):
        def forward(self, x):
            return 3 * F.group_norm(x, self.num_groups)

    model = nn.ModuleList([Upcast(2, 4), Doubled(2, 4), FrameByFrame(2, 4), ByItself(2, 4)])
    clip = torch.randn(2, 4, 3, 5, 5)
    expected = [each(clip) for each in model]
    undo = fuse_group_norm(model)
    assert [isinstance(each, part.FusedGroupNorm) for each in model] == [True, False, False, False]
    assert isinstance(model[0], Upcast)
    for each, before in zip(model, expected, strict=True):
        assert torch.allclose(each(clip), before, atol=1e-6)
    assert calls == {False: 1 + 1 + 3, True: 0}  # a kernel for each frame
    undo()
    assert [type(each) for each in model] == [Upcast, Doubled, FrameByFrame, ByItself]


class Framewise(nn.GroupNorm):
    def forward(self, x):
        assert x.dim() == 5, "a clip"
        return super().forward(x.transpose(1, 2).flatten(0, 1)).unflatten(0, (x.shape[0], -1))


def test_what_is_saved_and_loaded_is_the_users_own(tmp_path):
    model = nn.ModuleList([Framewise(2, 4), Consecutive()])
    clip = torch.randn(2, 4, 3, 5, 5)
    expected = model[0](clip)
    fuse_group_norm(model)
    assert torch.allclose(model[0](clip), expected, atol=1e-6)
    torch.save(model, tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    assert [type(each) for each in loaded] == [Framewise, Consecutive]
    assert torch.equal(loaded[0](clip), expected)
    assert [type(each) for each in copy.deepcopy(model)] == [Framewise, Consecutive]


def test_trains_copies_and_compiles():
    block, x = Consecutive(), torch.randn(2, 4, 3, 3)
    twin = copy.deepcopy(block)
    fuse_group_norm(block)
    assert torch.allclose(copy.deepcopy(block)(x), twin(x), atol=1e-6)
    for each in (block, twin):
        torch.compile(each, fullgraph=True, backend="eager")(x).sum().backward()
    assert torch.allclose(block.norm.weight.grad, twin.norm.weight.grad, atol=1e-5)


def test_diffusers_blocks_fuse_every_silu_after_a_norm(calls):
    diffusers = pytest.importorskip("diffusers")
    model = diffusers.UNet2DModel(
        sample_size=8,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        layers_per_block=1,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ).eval()
    x, step = torch.randn(1, 3, 8, 8), torch.tensor([3])
    with torch.no_grad():
        expected, names = model(x, step).sample, list(model.state_dict())
        undo = fuse_group_norm(model)
        assert torch.allclose(model(x, step).sample, expected, atol=1e-5)
        assert calls[True] > 15
        assert list(model.state_dict()) == names
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        assert torch.allclose(compiled(x, step).sample, expected, atol=1e-5)
        undo()
        assert torch.equal(model(x, step).sample, expected)
