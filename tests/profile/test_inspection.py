"""What an inspected step reveals, from small scripts that are looked at as the recorder would."""

import pytest

from pitstop.diagnose.facts.calls import backward_passes
from pitstop.profile.read.inspection import read_inspection

pytest.importorskip("torch")

import torch

from inspecting import TRAINING, UPDATE

NORM = """
class Norm(nn.BatchNorm1d):
    def forward(self, x):
        self.running_mean.lerp_(x.mean(0).detach(), 0.1)
        return x - self.running_mean
"""


def named(evidence, path):
    return [call for call in evidence.calls if call.path == path]


def test_backward_operations_have_the_line_and_the_call_of_the_forward_ones(inspected):
    step = "features = model(x)  # model\n    loss = head(features).mean()  # head\n" + UPDATE
    evidence, line = inspected(TRAINING, step)
    (norm,) = [each for each in evidence.operations if "batch_norm_backward" in each.name]
    assert norm.backward
    assert norm.where.line == line["model"]
    assert evidence.calls[norm.call].kind == "BatchNorm1d"
    products = [each for each in evidence.operations if each.backward and "mm" in each.name]
    assert {each.where.line for each in products} == {line["model"], line["head"]}


def test_backward_passes_are_counted_where_only_sums_of_operations_are_kept(inspected, monkeypatch):
    monkeypatch.setattr("pitstop.profile.inspect.watch.MOST_OPERATIONS", 0)
    step = (
        "loss = head(model(x)).mean()\n    (loss / 2).backward()\n    loss = head(model(x)).mean()"
    )
    evidence, _ = inspected(TRAINING, step + UPDATE)
    assert backward_passes(evidence) == 2
    products = [each for each in evidence.operations if each.name == "aten.addmm.default"]
    assert [(each.calls, each.shapes) for each in products] == [(2, "")] * 2  # of two layers each


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_calls_are_known_as_recomputed_under_their_first_caller(reentrant, inspected):
    before = """
from torch.utils.checkpoint import checkpoint
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    def again(self, x):
        return self.inner(x).sin()  # inner
    def forward(self, x):
        return checkpoint(self.again, x, use_reentrant=REENTRANT).relu()
model = Model()
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
"""
    before = before.replace("REENTRANT", str(reentrant))
    step = "loss = model(x.requires_grad_()).mean()\n" + UPDATE
    evidence, line = inspected(before, step)
    first, again = named(evidence, "inner")
    assert (first.recomputed, again.recomputed) == (False, True)
    assert first.parent == again.parent == 0
    assert not again.unused
    (product,) = [
        o for o in evidence.operations if "addmm" in o.name and evidence.calls[o.call].recomputed
    ]
    assert (product.where.line, product.backward) == (line["inner"], False)
    again = [o for o in evidence.operations if o.name in {"aten.tanh.default", "aten.sin.default"}]
    assert sum(o.calls for o in again) == 4 if reentrant else 3  # the other kind stops in time
    assert not any(o.backward for o in again)
    assert evidence.kept == ()


def test_calls_tell_what_they_depend_on_and_who_needs_them(inspected):
    before = NORM + TRAINING + "other = nn.Sequential(nn.Linear(8, 8), Norm(8))\n"
    before += "score = nn.Linear(8, 1)\n"
    step = (
        """
    first = model(x)
    second = model(x + 1)
    third = model(first)
    nobody = other(second)
    seen = score(first).mean().item()
    loss = (head(second) + head(third)).mean()
"""
        + UPDATE
    )
    evidence, _ = inspected(before, step)
    outermost = [call for call in evidence.calls if call.parent < 0]
    kinds = [(call.parameters, call.unused, call.chained) for call in outermost]
    model = 8 * 8 + 8 + 16
    assert kinds == [
        (model, False, False),
        (model, False, False),
        (model, False, True),
        (88, True, False),  # that its running statistics change is no use
        (9, False, False),  # read by Python
        (9, False, False),
        (9, False, False),
    ]
    assert all(call.graph and call.training for call in outermost)


def test_running_statistics_are_no_dependence(inspected):
    before = NORM + TRAINING + "norm, layer = Norm(8), nn.Linear(8, 8)\n"
    step = "a = norm(layer(x))\n    b = layer(norm(x + 1))\n    loss = head(model(a + b)).mean()\n"
    evidence, _ = inspected(before, step + UPDATE)
    assert not any(call.chained for call in evidence.calls if call.parent < 0)


@pytest.mark.parametrize("weight", ["0.0", "torch.zeros(())", "0.5"])
def test_a_term_times_zero_names_the_calls_that_serve_nothing_else(weight, inspected):
    before = TRAINING + "other = nn.Linear(8, 8)\n"
    step = (
        f"""
    features = model(x)
    term = other(features).mean()
    loss = head(features).mean() + {weight} * term  # zero
"""
        + UPDATE
    )
    evidence, line = inspected(before, step)
    if weight == "0.5":
        assert evidence.zeroed == ()
        return
    (zeroed,) = evidence.zeroed
    assert zeroed.where.line == line["zero"]
    assert [evidence.calls[place].kind for place in zeroed.calls] == ["Linear"]
    assert not any(call.unused for call in evidence.calls)


def test_a_learned_factor_that_starts_at_zero_is_no_zero_weight(inspected):
    before = TRAINING + "gate = nn.Parameter(torch.zeros(()))\n"
    evidence, _ = inspected(before, "loss = (gate * head(model(x))).mean()\n" + UPDATE)
    assert evidence.zeroed == ()


def test_inference_uses_what_its_models_return(inspected):
    before = """
class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x):
        dropped = self.b(x)
        return self.a(x)
both = Both().eval().requires_grad_(False)
"""
    evidence, _ = inspected(before, "both(x)\n    ends()")
    assert [(call.path, call.unused) for call in evidence.calls] == [
        ("Both", False), ("b", True), ("a", False)
    ]  # fmt: skip


def test_a_custom_kernel_behind_numpy_still_counts_as_use(inspected):
    before = TRAINING + "other = nn.Linear(8, 8)\n"
    step = (
        """
    features = model(x)
    outside = torch.from_numpy(other(x).detach().numpy() * 2)
    loss = (head(features) + outside.sum()).mean()
"""
        + UPDATE
    )
    evidence, _ = inspected(before, step)
    assert not any(call.unused for call in evidence.calls)


def test_equal_content_has_an_equal_checksum_and_only_frozen_modules_have_one(inspected):
    before = TRAINING + "frozen = nn.Linear(8, 8).requires_grad_(False)\nsame = torch.ones(4, 8)\n"
    step = "a, b, c = frozen(same), frozen(same.clone()), frozen(input=x)\n"
    evidence, _ = inspected(before, step + "    loss = head(model(a + b + c)).mean()\n" + UPDATE)
    first, second, third, *rest = [call.content for call in evidence.calls]
    assert first == second != third
    assert "" not in {first, third}
    assert set(rest) == {""}
    assert evidence.calls[2].shapes == "float32[4,8]@cpu"


@pytest.mark.parametrize("update", ["lerp_(x.mean(), 0.1)", "data.mul_(0.9)"])
def test_a_running_mean_of_weights_is_no_frozen_module(update, inspected):
    before = TRAINING + "mean = nn.Linear(8, 8).requires_grad_(False)\n"
    step = (
        f"""
    ones = torch.ones(4, 8)
    mean(ones)
    mean(ones)
    with torch.no_grad():
        mean.weight.{update}
        mean(ones)
        mean.weight.{update}
    loss = head(model(x)).mean()
"""
        + UPDATE
    )
    evidence, _ = inspected(before, step)
    first, same, later, *_ = [call.content for call in evidence.calls if call.content]
    assert first == same != later
    assert not any(call.again for call in evidence.calls)


def test_a_model_that_is_built_in_every_step_is_named(inspected):
    before = TRAINING
    step = "fresh = nn.Linear(8, 8)\n    loss = head(model(fresh(x))).mean()\n" + UPDATE
    evidence, _ = inspected(before, step)
    assert [(call.kind, call.parameters) for call in evidence.rebuilt] == [("Linear", 72)]


@pytest.mark.parametrize(
    ("before", "after", "holder", "graph"),
    [
        ("losses = []\n", "losses.append(loss)  # keeps", "losses", True),
        ("log = {'loss': []}\n", "log['loss'].append(loss)  # keeps", "log", True),
        ("total = 0\n", "global total\n    total = total + loss  # keeps", "total", True),
        ("seen = []\n", "seen.append(features.detach())  # keeps", "seen", False),
        (
            "class Meter: pass\nmeter = Meter()\nmeter.values = []\n",
            "meter.values.append(loss)  # keeps",
            "self.values",
            True,
        ),
    ],
)
def test_what_is_kept_is_named_with_its_holder_and_line(before, after, holder, graph, inspected):
    step = "features = model(x)\n    loss = head(features).mean()\n" + UPDATE
    evidence, line = inspected(TRAINING + before, f"{step}    {after}")
    (kept,) = evidence.kept
    assert (kept.holder, kept.graph, kept.kept_at.line) == (holder, graph, line["keeps"])


@pytest.mark.parametrize(
    "after", ["last = loss", "best = {'loss': loss}", "kept.append(loss.item())"]
)
def test_a_loop_variable_keeps_nothing(after, inspected):
    step = "features = model(x)\n    loss = head(features).mean()\n" + UPDATE
    evidence, _ = inspected(TRAINING + "kept = []\n", f"{step}    {after}")
    assert evidence.kept == ()


def test_reads_and_host_calls_are_waits_with_their_line(inspected):
    step = (
        """
    loss = head(model(x)).mean()
    gc.collect()  # collect
    torch.cuda.empty_cache()  # empty
    loss.item()  # item
    x.tolist()  # list
    str(x)  # text
    x[x > 0].sum()  # mask
    x + 1  # plain
"""
        + UPDATE
    )
    evidence, line = inspected(TRAINING, step)
    waits = {each.where.line for each in evidence.operations if each.waits}
    assert {line[mark] for mark in ("empty", "item", "list", "text", "mask")} <= waits
    assert line["plain"] not in waits
    (collect_call,) = [each for each in evidence.operations if each.name == "gc.collect"]
    assert (collect_call.where.line, collect_call.waits) == (line["collect"], False)
    assert collect_call.micros > 0


def test_settings_are_those_inside_the_model_call(inspected):
    before = TRAINING + "torch.set_num_threads(1)\ntorch.backends.cuda.matmul.allow_tf32 = True\n"
    step = (
        "with torch.autocast('cpu', torch.bfloat16): out = head(model(x))\n    loss = out.mean()\n"
    )
    evidence, _ = inspected(before, step + UPDATE)
    settings = evidence.settings
    assert (settings.device, settings.threads, settings.autocast) == ("cpu", 1, "bfloat16")
    assert settings.tf32_matmul
    assert not settings.deterministic
    assert settings.bfloat16 == torch.ops.mkldnn._is_mkldnn_bf16_supported()


@pytest.mark.parametrize("wrong", ["x @ torch.zeros(3, 3)", "x.requires_grad_().numpy()"])
def test_an_error_in_an_inspected_step_has_its_own_traceback(wrong, inspected):
    step = f"""
    loss = head(model(x)).mean()
    try:
        {wrong}
    except RuntimeError as error:
        assert error.__traceback__.tb_next is None
"""
    evidence, _ = inspected(TRAINING, step + UPDATE)
    assert evidence.operations


def test_a_mode_of_the_script_outlives_the_inspected_step_in_which_it_was_entered(inspected):
    before = """
from torch.utils._python_dispatch import TorchDispatchMode
class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        seen.append(func)
        return func(*args, **(kwargs or {}))
seen, mode = [], Mode()
"""
    step = "loss = head(model(x)).mean()\n    step == 2 and mode.__enter__()\n" + UPDATE
    after = "    step == 7 and (mode.__exit__(None, None, None), print(len(seen)))"
    evidence, _ = inspected(TRAINING + before, step + after)
    assert evidence.operations  # of the step before


def test_two_objects_of_one_class_have_names_of_their_own(inspected):
    before = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
    def forward(self, x):
        return self.body(x)
first, second, head = Net(), Net(), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*first.parameters(), *head.parameters()], 1e-3)
"""
    step = "loss = head(first(x) + second(x)).mean()\n" + UPDATE
    evidence, _ = inspected(before, step)
    paths = [call.path for call in evidence.calls]
    assert paths == ["Net", "body", "Net#2", "Net#2.body", "Linear"]
    outside = {name for name, _ in evidence.parameters.outside_optimizer}
    assert outside == {"Net#2.body.weight", "Net#2.body.bias"}
    assert set(evidence.parameters.tops) == {"Net", "Net#2", "Linear"}


def test_a_call_knows_the_lines_up_to_the_call_around_it(inspected):
    before = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 8)
    def encode(self, x):
        return self.encoder(x)  # call
    def forward(self, x):
        return self.encode(x) + self.encode(x + 1)  # forward
model = Model()
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
"""
    evidence, line = inspected(before, "loss = model(x).mean()  # loss\n" + UPDATE)
    outer, first, second = evidence.calls
    assert first.where.line == second.where.line == line["call"]
    assert [each.line for each in first.through] == [line["forward"]]
    assert outer.where.line == line["loss"]


def test_the_same_content_in_two_inspected_steps_is_told(inspected):
    before = TRAINING + "frozen = nn.Linear(8, 8).requires_grad_(False)\nsame = torch.ones(4, 8)\n"
    step = """
    known, other = frozen(same), frozen(x)
    loss = head(model(known + other)).mean()
"""
    evidence, _ = inspected(before, step + UPDATE)
    assert [call.again for call in evidence.calls if call.frozen and call.parameters] == [
        True, False
    ]  # fmt: skip


def test_what_a_host_call_runs_counts_by_itself(inspected):
    step = "big = torch.rand(60, 60)\n    str(big)  # text\n    loss = head(model(x)).mean()\n"
    evidence, line = inspected(TRAINING, step + UPDATE)
    here = [each for each in evidence.operations if each.where.line == line["text"]]
    (whole,) = [each for each in here if each.name == "torch.Tensor.__repr__"]
    assert len(here) > 1
    assert whole.micros > 0


def notes(micros, device=None):
    row = ["aten.mm.default", ["a.py", 3, "f"], "float32[8,8]@cpu", 2, micros, device, 0, 0, -1]
    return {"inspected": 1, "operations": [[*row, False, False, "", 0.0]]}


@pytest.mark.parametrize(("device", "expected"), [(None, 10.0), (7.0, 900.0)])
def test_on_a_cpu_one_slow_moment_is_not_the_operations(device, expected):
    evidence = read_inspection([notes(10.0, device), notes(900.0, device)])
    assert evidence.operations[0].micros == expected


def test_a_call_knows_its_backward_passes_its_optimizer_interval_and_what_it_is_fed(inspected):
    before = (
        TRAINING + "critic = nn.Linear(8, 1)\nsecond = torch.optim.SGD(critic.parameters(), 1)\n"
    )
    step = """
    made = model(x)
    fooled = critic(made).mean()
    (fooled + head(made).mean()).backward()
    optimizer.step()
    second.zero_grad()
    (critic(x).mean() - critic(made.detach()).mean()).backward()
    second.step()
    optimizer.zero_grad()
    ends()
"""
    evidence, _ = inspected(before, step)
    found = [(each.passes, each.interval, each.fed) for each in named(evidence, "Linear")]
    assert found == [((0,), 0, True), ((1,), 1, False), ((1,), 1, False)]


def test_what_is_summed_is_marked_and_functions_are_told_by_their_class(inspected, monkeypatch):
    monkeypatch.setattr("pitstop.profile.inspect.watch.MOST_OPERATIONS", 3)
    step = "loss = head(model(x).relu()).mean()  # relu" + UPDATE
    evidence, _ = inspected(TRAINING, step)
    assert sum(not each.summed for each in evidence.operations) == 3
    assert all(each.call == -1 for each in evidence.operations if each.summed)
    nested = (
        "class Deep(nn.Module):\n    def forward(self, x):\n        return x.sin()\ndeep = Deep()\n"
    )
    evidence, _ = inspected(TRAINING + nested, "loss = head(model(deep(x))).mean()" + UPDATE)
    assert "Deep.forward" in {each.where.function for each in evidence.operations}
