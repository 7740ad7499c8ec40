"""Attention that a model writes out: what is fused computes the same, all else stays as it is."""

import copy
import importlib.util
import linecache
import pickle
import sys
import threading

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from pitstop.parts import fuse_attention
from pitstop.parts.attention import scores
from pitstop.parts.windows import ways
from pitstop.parts.windows.twin import window_attention_twin
from pitstop.parts.windows.ways import Way

HEAD = """
import torch
from einops_of_test import rearrange
from torch import einsum, nn
from torch.nn import functional as F

SEEN = []

class Block(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.qkv = nn.Linear(24, 72)
        self.scale = 8 ** -0.5
        self.bias = nn.Parameter(torch.randn(3, 10, 10))
        self.temperature = nn.Parameter(torch.rand(3, 1, 1))
        self.softmax = nn.Softmax(dim=-1)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("mask", torch.randint(0, 2, (4, 10, 10)) * -100.0)
        self.mix = nn.Linear(10, 10)

    def parts(self, x):
        windows, tokens, _ = x.shape
        return self.qkv(x).reshape(windows, tokens, 3, 3, 8).permute(2, 0, 3, 1, 4)

    def together(self, x):
        return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], 24)
"""
BLOCK = """
class Own(Block):
    def forward(self, x, mask=None, positions=4, heads=3, log=False):
        q, k, v = self.parts(x)
        count, _, n, _ = q.shape
{}
        return self.together(x)
"""
FUSED = {
    "shifted": """
        q = q * self.scale
        a = q @ k.transpose(-2, -1)
        a = a + self.bias.unsqueeze(0)
        if self.mask is not None:
            a = a.view(count // 4, 4, heads, n, n) + self.mask.unsqueeze(1).unsqueeze(0)
            a = a.view(-1, heads, n, n)
            a = self.softmax(a)
        else:
            a = self.softmax(a)
        a = self.drop(a)
        x = a @ v
""",
    "mask twice": """
        a = (q @ k.mT) / 3 + self.bias
        a = a.view(count // 4, 4, heads, n, n) + self.mask[:, None][None]
        a = a + self.mask.unsqueeze(1).unsqueeze(0)
        x = torch.matmul(F.softmax(a.view(-1, heads, n, n), dim=-1), v)
""",
    "temperature": """
        a = torch.matmul(F.normalize(q, dim=-1), F.normalize(k, dim=-1).transpose(2, 3))
        a = (a * self.temperature).softmax(dim=-1)
        x = a @ v
""",
    "one line": "        x = F.dropout((q @ k.mT * self.scale).softmax(-1), 0.1, False) @ v",
    "equations": """
        s = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        s = self.bias + s
        s = torch.softmax(s, 3)
        x = torch.einsum("bhij,bhjd->bhid", s, v)
""",
    "three axes": """
        q, k, v = (each.flatten(0, 1) for each in (q, k, v))
        weights = F.softmax(torch.bmm(q, k.transpose(1, 2)) * 0.3, dim=2)
        x = torch.bmm(weights, v).view(count, 3, n, 8)
""",
    "in place": """
        a = q @ k.mT
        a *= self.scale
        a += self.bias
        if a.shape[-1] == a.size(2) and a.dim() == 4:
            a = a.double().softmax(dim=-1, dtype=torch.float64).to(v.dtype)
        x = a.matmul(v)
""",
    "padding": """
        x = ((q @ k.mT) + self.mask[0, 0, :n] + self.bias[:1]).softmax(-1).type_as(v) @ v
""",
    "its own mask for each window": """
        a = (q @ k.mT) + self.mask.repeat(count // 4, 1, 1)[:, None, :1]
        x = self.drop(self.softmax(a)) @ v
""",
}
ELSEWHERE = """
def attend(q, k, v, bias=None):
    scores = q @ k.transpose(-2, -1)
    scores = scores if bias is None else scores + bias
    return scores.softmax(-1) @ v

class Own(Block):
    def forward(self, x):
        q, k, v = self.parts(x)
        return self.together(self._mutual(q, k, v) + attend(q, k, v, self.bias))

    @torch.autocast("cpu", enabled=False)
    def _mutual(self, q, k, v, __private=1):
        self.__name = 1
        x = super().forward if False else q
        a = (x * self.scale) @ k.transpose(-2, -1)
        return self.softmax(a) @ v
"""


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Build a model from source, as a file that is imported."""
    (tmp_path / "einops_of_test.py").write_text("rearrange = None")
    monkeypatch.syspath_prepend(tmp_path)

    def make(lines, dropout=0.0, **names):
        text = HEAD + (lines if "class Own" in lines else BLOCK.format(lines.rstrip()))
        path = tmp_path / f"model_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)
        vars(module).update(names)
        spec.loader.exec_module(module)
        torch.manual_seed(0)
        return module.Own(dropout).double()

    return make


@pytest.fixture
def part(monkeypatch):
    """Let ``window_attention`` take all that the kernel could; the calls it was given."""
    calls = []

    def run(*given):
        calls.append([None if each is None else getattr(each, "shape", each) for each in given])
        return window_attention_twin(*given)

    monkeypatch.setitem(scores.RUNS, Way.KERNEL, run)
    monkeypatch.setattr(scores, "choose", lambda *_: Way.KERNEL)
    return calls


def stepped(model, x, **more):
    """The result and all gradients."""
    model.zero_grad()
    given = x.clone().requires_grad_()
    result = model(given, **more)
    result.square().sum().backward()
    return [
        result,
        given.grad,
        *[each.grad for each in model.parameters() if each.grad is not None],
    ]


def same(found, expected):
    assert len(found) == len(expected)
    return all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def close(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def batch(windows=8, tokens=10):
    return torch.randn(windows, tokens, 24, dtype=torch.float64)


@pytest.mark.parametrize("lines", FUSED.values(), ids=FUSED)
def test_attention_that_is_written_out_is_one_call_of_the_part(made, part, lines):
    model, x = made(lines), batch()
    expected = stepped(model, x)
    undo = fuse_attention(model)
    assert str(undo) == "attention of Own.forward: not timed"
    close(stepped(model, x), expected)
    assert len(part) == 1
    with torch.no_grad():
        close([model(x)], expected[:1])
    undo()
    assert same(stepped(model, x), expected)
    assert len(part) == 2


@pytest.mark.parametrize("lines", FUSED.values(), ids=FUSED)
def test_where_nothing_is_faster_every_bit_stays(made, monkeypatch, lines):
    model, x = made(lines), batch()
    expected = stepped(model, x)
    asked = []
    monkeypatch.setattr(scores, "choose", lambda *given: asked.append(given) or Way.TWIN)
    fuse_attention(model)
    assert same(stepped(model, x), expected)
    assert len(asked) == 1


@pytest.mark.parametrize("lines", FUSED.values(), ids=FUSED)
def test_torchs_fused_attention_is_taken_where_it_can(made, monkeypatch, lines):
    model, x = made(lines), batch()
    with torch.no_grad():
        expected = model(x)
        monkeypatch.setattr(ways, "_fastest", lambda _, possible, __: possible[0])
        ways._fastest_known.cache_clear()
        fuse_attention(model)
        close([model(x)], [expected])
    ways._fastest_known.cache_clear()


def test_what_is_fastest_is_measured_once_for_each_kind(made, monkeypatch):
    model = made(FUSED["one line"])
    measured = []
    monkeypatch.setattr(ways, "_fastest", lambda *given: measured.append(given) or Way.SDPA)
    ways._fastest_known.cache_clear()
    fuse_attention(model)
    with torch.no_grad():
        for windows in (8, 8, 12, 15, 16):
            model(batch(windows))
        assert len(measured) == 2  # 8 to 15 windows, and 16
        for tokens in range(11, 11 + 2 * ways.MOST_KINDS):
            model(batch(2, tokens))
    assert len(measured) == ways.MOST_KINDS
    ways._fastest_known.cache_clear()


def test_methods_and_functions_that_forward_calls(made, part):
    model, x = made(ELSEWHERE), batch()
    expected = stepped(model, x)
    undo = fuse_attention(model)
    assert len(undo.record) == 2
    close(stepped(model, x), expected)
    assert len(part) == 2


LEFT = {
    "returned": "        a = (q @ k.mT).softmax(-1)\n        x = a @ v\n        SEEN.append(a)",
    "kept": "        self.map = a = (q @ k.mT).softmax(-1)\n        x = a @ v",
    "printed": "        a = q @ k.mT\n        print(a.mean())\n        x = a.softmax(-1) @ v",
    "control flow": """
        a = q @ k.mT
        if a.max() > 1e3:
            a = a / 2
        x = a.softmax(-1) @ v
""",
    "indexed": "        a = (q @ k.mT).softmax(-1)\n        x = a[:, :] @ v",
    "an unknown function": "        a = F.relu(q @ k.mT).softmax(-1)\n        x = a @ v",
    "not scores": "        x = (q * self.scale).softmax(-1) * v",
    "no softmax": "        x = (q @ k.mT * self.scale) @ v",
    "from the right": "        a = (q @ k.mT).softmax(-1)\n        x = (v.mT @ a).mT",
    "nested": "        a = (q @ k.mT).softmax(-1)\n        x = (lambda: a @ v)()",
    "another context": """
        with torch.autocast("cpu", enabled=False):
            a = (q @ k.mT).softmax(-1)
        x = a @ v
""",
    "changed in place": """
        a = q @ k.mT
        q.mul_(1)
        x = a.softmax(-1) @ v
""",
    "assigned to": """
        a = q @ k.mT
        v[0] = v[0] * 2
        x = a.softmax(-1) @ v
""",
    "added to": "        a = q @ k.mT\n        q += 1\n        x = a.softmax(-1) @ v",
    "in a loop": """
        for _ in range(2):
            a = q @ k.mT
            x = a.softmax(-1) @ v
            q += 1
""",
    "gradients switched": """
        a = q @ k.mT
        torch.set_grad_enabled(torch.is_grad_enabled())
        x = a.softmax(-1) @ v
""",
}


@pytest.mark.parametrize("lines", LEFT.values(), ids=LEFT)
def test_what_else_may_become_of_the_scores_is_left_alone(made, part, lines):
    model, x = made(lines), batch()
    with torch.no_grad():
        expected = model(x)
        undo = fuse_attention(model)
        assert not undo.steps
        assert str(undo) == "nothing was exchanged"
        assert torch.equal(model(x), expected)
    assert not part


WRITTEN = {  # the pattern is there; what runs is something else
    "another axis": "        x = (q @ k.mT).softmax(-2) @ v",
    "a module that mixes": "        x = self.softmax(self.mix(q @ k.mT)) @ v",
    "a scale behind the bias": "        x = ((q @ k.mT + self.bias) * 0.5).softmax(-1) @ v",
    "a number added": "        x = (q @ k.mT + 1).softmax(-1) @ v",
    "a scale behind the softmax": "        x = ((q @ k.mT).softmax(-1) * self.temperature) @ v",
    "all scores added": "        x = (q @ k.mT + (q @ k.mT).detach()).softmax(-1) @ v",
    "a factor for each row": "        x = (q @ k.mT * self.bias[..., :1]).softmax(-1) @ v",
    "softmax twice": "        x = (q @ k.mT).softmax(-1).softmax(-1) @ v",
    "another view": "        x = (q @ k.mT).view(-1, n, n).softmax(-1) @ v.reshape(-1, n, 8)\n"
    "        x = x.view(count, 3, n, 8)",
    "a view changed in place": """
        a = q @ k.mT
        b = a.view(-1, 3, n, n)
        b += self.bias
        x = a.softmax(-1) @ v
""",
    "its owner changed in place": """
        a = q @ k.mT
        b = a.view(-1, 3, n, n)
        a += self.bias
        x = b.softmax(-1) @ v
""",
    "what was made of it before": """
        a = q @ k.mT
        b = a * self.scale
        a += self.bias
        x = b.softmax(-1) @ v + a.softmax(-1) @ v
""",
    "made of a view before": """
        a = q @ k.mT
        b = a.view(-1, 3, n, n)
        c = b + self.bias
        a *= 3
        x = c.softmax(-1) @ v + b.softmax(-1) @ v
""",
    "an equation of channels": """
        a = einsum("bhid,bhie->bhde", q, k).softmax(-1)
        x = einsum("bhde,bhie->bhid", a, v)
""",
    "values of all heads": "        x = (q @ k.mT).softmax(-1) @ v[:, :1]",
}


@pytest.mark.parametrize("lines", WRITTEN.values(), ids=WRITTEN)
def test_what_is_no_attention_of_the_part_computes_as_written(made, part, lines):
    model, x = made(lines), batch()
    expected = stepped(model, x)
    fuse_attention(model)
    assert same(stepped(model, x), expected)
    assert not part


def test_another_name_for_the_same_scores_sees_what_is_added_in_place(made, part):
    lines = (
        "        a = q @ k.mT\n        b = a\n        a += self.bias\n        x = b.softmax(-1) @ v"
    )
    model, x = made(lines), batch()
    expected = stepped(model, x)
    fuse_attention(model)
    close(stepped(model, x), expected)
    assert len(part) == 1


def test_dropout_at_work_draws_what_it_drew(made, part):
    model, x = made(FUSED["shifted"], dropout=0.2), batch()
    torch.manual_seed(1)
    expected = stepped(model, x)
    fuse_attention(model)
    torch.manual_seed(1)
    assert same(stepped(model, x), expected)
    assert not part
    model.eval()
    model(x)
    assert len(part) == 1


@pytest.mark.parametrize("of_all", [False, True])
def test_hooks_are_shown_tensors(made, part, of_all):
    model, x = made(FUSED["shifted"]), batch()
    shown = []
    fuse_attention(model)

    def hook(module, given, result):
        shown.append((type(module), type(given[0]), type(result)))

    if of_all:
        handle = nn.modules.module.register_module_forward_hook(hook)
    else:
        handle = model.softmax.register_forward_hook(hook)
    model(x)
    handle.remove()
    assert (nn.Softmax, torch.Tensor, torch.Tensor) in shown
    assert not part


def test_a_model_that_changes_its_inputs_through_a_function_is_told(made, part):
    lines = "        a = q @ k.mT\n        change(q)\n        x = a.softmax(-1) @ v"
    model, x = made(lines, change=lambda tensor: tensor.mul_(2)), batch()
    fuse_attention(model)
    with torch.no_grad(), pytest.raises(RuntimeError, match="changed in place between"):
        model(x)


def test_a_file_that_is_not_what_was_imported_is_left_alone(made):
    model = made(FUSED["shifted"])
    path = sys.modules[type(model).__module__].__file__
    text = linecache.getlines(path)
    linecache.cache[path] = (1, None, [each.replace("self.scale", "0.5") for each in text], path)
    assert not fuse_attention(model).steps


def test_a_model_is_copied_pickled_and_fused_once(made, part):
    model, x = made(FUSED["shifted"]), batch()
    expected = model(x)
    undo = fuse_attention(model)
    assert not fuse_attention(model).steps
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        close([other(x)], [expected])
    assert len(part) == 2
    undo()


def test_torch_func_compile_and_trace_see_what_is_written(made, part):
    model, x = made(FUSED["shifted"]).eval(), batch()
    expected = model(x)
    undo = fuse_attention(model)
    close([torch.func.vmap(model)(x[None])[0]], [expected])
    close([torch.compile(model, backend="eager", fullgraph=True)(x)], [expected])
    traced = torch.jit.trace(model, x, check_trace=False)
    close([traced(x)], [expected])
    assert not part
    undo()


def test_checkpoints_and_autocast(made, part):
    model, x = made(FUSED["shifted"]).float(), batch().float().requires_grad_()
    grads = []
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            result = checkpoint(model, x, use_reentrant=False)
        grads.append((result, *torch.autograd.grad(result.float().sum(), x)))
        fuse_attention(model)
    assert len(part) == 2  # and once more for the backward pass
    for one, other in zip(*grads, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.05)


def test_two_threads_call_one_model(made, part):
    model, x = made(FUSED["shifted"]), batch()
    expected = model(x).detach()
    fuse_attention(model)
    results = []

    def work():
        results.extend(model(x).detach() for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(results) == 40
    for each in results:
        torch.testing.assert_close(each, expected)


def test_inference_mode_and_deterministic_algorithms(made, part):
    model, x = made(FUSED["shifted"]), batch()
    with torch.inference_mode():
        expected = model(x)
        fuse_attention(model)
        torch.testing.assert_close(model(x), expected)
        assert len(part) == 1
        torch.use_deterministic_algorithms(True)
        try:
            assert torch.equal(model(x), expected)
        finally:
            torch.use_deterministic_algorithms(False)
    assert len(part) == 1
