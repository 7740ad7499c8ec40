"""Each change takes hold of a real script from outside, and does to its numbers what it says."""

import math

import pytest

pytest.importorskip("torch")

import torch

import pitstop.tune.changes
from pitstop.tune.change import find_change, load_changes
from pitstop.tune.plan import Toggle
from tune.running import TRAIN, TRAINS, run

pytestmark = pytest.mark.slow  # real processes by the dozen: `make test-slow`

NAMES = [
    "allocator",
    "batch-size",
    "bf16",
    "channels-last",
    "checkpointing-off",
    "checkpointing-on",
    "compile",
    "cudnn-benchmark",
    "fp16",
    "fused-group-norm",
    "fused-optimizer",
    "inference-mode",
    "loader",
    "no-attention-weights",
    "no-empty-cache",
    "non-blocking",
    "tf32",
    "threads",
    "tiled-vae",
]
EAGER = {"backend": "aot_eager"}  # Dynamo and autograd as always; no C++ compiler is needed
CHECKPOINTS = TRAIN.replace("block(x)", "checkpoint(block, x, use_reentrant=True)")
WITHOUT_DROPOUT = TRAIN.replace("Dropout(0.1)", "Dropout(0.0)")
ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def plain(folder):
    """The losses of the untouched script."""
    numbers = run(folder, TRAIN).numbers
    assert len(numbers) == 8
    return numbers


def test_every_change_is_there_and_says_what_it_does():
    changes = load_changes(pitstop.tune.changes)
    assert [each.name for each in changes] == NAMES
    for each in changes:
        assert 20 < len(each.summary) <= 88 + 8, each.name
        assert each.summary.endswith(".")
        assert len(each.doc.splitlines()) > 2, each.name


@pytest.mark.parametrize(
    ("change", "times"),
    [
        (("loader", {"workers": 2}), 1),
        ("checkpointing-on", 3 * 8),
        (("compile", {"scope": "blocks", **EAGER}), 3),
        (("compile", {"scope": "whole", **EAGER}), 1),
    ],
)
def test_takes_hold_and_leaves_every_loss_as_it_was(change, times, folder, plain):
    ran = run(folder, TRAIN, change)
    assert ran.code == 0, ran.complained
    assert ran.outcome.applied == times
    assert not ran.outcome.declined
    assert ran.numbers == plain


@pytest.mark.parametrize(
    ("change", "times"),
    [
        ("checkpointing-off", 3 * 8),
        (("compile", {"scope": "inside-checkpoints", **EAGER}), 3),
    ],
)
def test_checkpoints_are_skipped_or_compiled_inside(change, times, folder, plain):
    ran = run(folder, CHECKPOINTS, change)
    assert ran.code == 0, ran.complained
    assert ran.outcome.applied == times
    assert ran.numbers == plain


@pytest.mark.parametrize(
    ("change", "largest"), [("bf16", 0.02), ("fp16", 0.004), ("fused-optimizer", 1e-5)]
)
def test_takes_hold_and_rounds(change, largest, folder, plain):
    ran = run(folder, TRAIN, change)
    assert ran.code == 0, ran.complained
    assert ran.outcome.applied > 0
    drift = max(abs(a - b) / b for a, b in zip(ran.numbers, plain, strict=True))
    assert drift < largest
    assert drift > 0 or change == "fused-optimizer"  # which on Arm does not even round otherwise


@pytest.mark.parametrize("reentrant", [True, False])
def test_autocast_is_there_before_a_model_that_is_checkpointed_as_a_whole(reentrant, folder):
    whole = f"checkpoint(model, x.requires_grad_(), use_reentrant={reentrant})"
    ran = run(folder, TRAIN.replace("model(x)", whole), "bf16")
    assert ran.code == 0, ran.complained
    assert ran.numbers == run(folder, TRAIN, "bf16").numbers


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("change", ["bf16", "fp16"])
def test_what_a_backward_pass_computes_again_has_no_autocast_of_its_own(change, reentrant, folder):
    source = CHECKPOINTS.replace("reentrant=True", f"reentrant={reentrant}")
    ran = run(folder, source, change)
    assert ran.code == 0, ran.complained
    assert not ran.outcome.declined
    assert ran.numbers == run(folder, TRAIN, change).numbers


def test_channels_last_rounds_and_says_that_dropout_falls_elsewhere(folder):
    before = run(folder, WITHOUT_DROPOUT).numbers
    watched = "\nModel.forward = watch\ntrain(Model())\n"
    watch = """
forward = Model.forward
def watch(self, x):
    assert x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    assert self.head.weight.stride()[1] == 1
    return forward(self, x)
"""
    source = WITHOUT_DROPOUT.replace("\ntrain(Model())\n", watch + watched)
    ran = run(folder, source, "channels-last")
    assert ran.code == 0, ran.complained
    assert ran.outcome.applied == 4
    assert ran.numbers == pytest.approx(before, rel=1e-4)
    assert ran.outcome.effect == ""
    assert run(folder, TRAIN, "channels-last").outcome.effect == "other-randomness"


IN_BETWEEN = {
    "other-randomness": ("x = self.head(x)", "x = self.head(x)\n        x = x + NOISE"),
    "": ("self.tail(x.mean((2, 3)))", "self.tail((y := x.mean((2, 3))) + NOISE.mean() * y)"),
}


@pytest.mark.parametrize("noise", ["randn_like(x)", "rand_like(input=x)", "randint_like(x, 9)"])
@pytest.mark.parametrize("effect", IN_BETWEEN)
def test_channels_last_says_that_noise_falls_elsewhere(folder, noise, effect):
    """As between the halves of a variational autoencoder; that of vectors falls where it did."""
    old, new = IN_BETWEEN[effect]
    new = new.replace("NOISE", f"torch.{noise if effect else noise.replace('x', 'y')}")
    ran = run(folder, WITHOUT_DROPOUT.replace(old, new), "channels-last")
    assert ran.code == 0, ran.complained
    assert ran.outcome.effect == effect


def test_a_computed_weight_is_laid_out_where_it_comes_from(folder):
    """To read it would go on with the power iteration of spectral_norm."""
    source = """
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
torch.manual_seed(0)
model = nn.Sequential(spectral_norm(nn.Conv2d(3, 8, 3)), spectral_norm(nn.Conv2d(8, 8, 3)))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(4):
    loss = model(torch.randn(2, 3, 8, 8)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
    ran = run(folder, source, "channels-last")
    assert ran.outcome.applied == 2
    assert ran.numbers == pytest.approx(run(folder, source).numbers, rel=1e-5)
    assert ran.complained == ""


def test_clips_are_laid_out_as_well(folder):
    source = """
import torch
model = torch.nn.Conv3d(3, 8, 3)
clip = torch.randn(1, 3, 8, 8, 8)
def look(_, given):
    print(given[0]["clip"].stride()[1], model.weight.stride()[1])
class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = model
    def forward(self, batch):
        look(None, (batch,))
        return self.inner(batch["clip"])
Outer()({"clip": clip})
"""
    assert run(folder, source, "channels-last").printed == ["1 1"]


def test_autocast_holds_until_the_backward_pass_and_gives_back_float32_without_one(folder):
    source = (
        TRAINS
        + """
model = Model()
x = torch.randn(4, 3, 8, 8)
y = model(x)
loss = (y @ y.T).mean()
print(y.dtype, (y @ y.T).dtype, torch.is_autocast_enabled("cpu"))
loss.backward()
print(torch.is_autocast_enabled("cpu"), {p.grad.dtype for p in model.parameters()})
with torch.no_grad():
    print(model(x).dtype, torch.is_autocast_enabled("cpu"))
print(model.eval()(x).dtype, torch.is_autocast_enabled("cpu"))
"""
    )
    assert run(folder, source, "bf16").printed == [
        "torch.bfloat16 torch.bfloat16 True",
        "False {torch.float32}",
        "torch.float32 False",
        "torch.float32 False",
    ]


def test_fp16_unscales_before_clipping_and_between_accumulated_passes(folder):
    source = (
        TRAINS
        + """
model = Model()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    optimizer.zero_grad()
    for part in range(2):
        (model(torch.randn(4, 3, 8, 8)) ** 2).mean().backward()
    print(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
    optimizer.step()
    print(sum(p.double().sum() for p in model.parameters()).item())
"""
    )
    plain, scaled = run(folder, source), run(folder, source, "fp16")
    assert scaled.code == 0, scaled.complained
    assert scaled.numbers != plain.numbers
    assert scaled.numbers == pytest.approx(plain.numbers, rel=0.02)


def test_fp16_skips_a_step_whose_gradients_overflow_and_goes_on(folder):
    source = (
        TRAINS
        + """
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
for size in (1.0, 1e6, 1.0):
    before = model.weight.detach().clone()
    optimizer.zero_grad()
    (model(torch.ones(4, 8)) * size).sum().backward()
    optimizer.step()
    print(bool((model.weight != before).any()), bool(model.weight.isfinite().all()))
"""
    )
    ran = run(folder, source, "fp16")
    assert ran.code == 0, ran.complained
    assert ran.printed == ["True True", "False True", "True True"]


OWN = {
    "autocast": "with torch.autocast('cpu', torch.bfloat16):\n    model(x).sum().backward()",
    "scaler": "torch.amp.GradScaler('cpu').scale(model(x).sum()).backward()",
    "half": "model.bfloat16()(x.bfloat16())",
}


@pytest.mark.parametrize(
    ("own", "name"), [("autocast", "bf16"), ("scaler", "fp16"), ("half", "bf16")]
)
def test_declines_where_the_script_has_its_own_precision(own, name, folder):
    source = f"{TRAINS}\nmodel, x = Model(), torch.randn(4, 3, 8, 8)\n{OWN[own]}\nprint('done')"
    ran = run(folder, source, name)
    assert ran.printed == ["done"], ran.complained
    assert {"autocast": "own autocast", "scaler": "own gradient scaler", "half": "already"}[
        own
    ] in ran.outcome.declined


def test_a_module_with_buffers_alone_is_no_model_in_half_precision(folder):
    mean = "shift = nn.BatchNorm1d(1, affine=False).eval()\nshift(torch.ones(2, 1))\n"
    ran = run(folder, f"{TRAINS}\n{mean}train(Model())\n", "bf16")
    assert ran.outcome.applied > 8
    assert not ran.outcome.declined


def test_autocast_that_the_script_has_switched_off_is_none(folder):
    source = (
        TRAINS.replace("loss = ((model(x) - y) ** 2).mean()", "loss = amp(model, x, y)")
        + """
def amp(model, x, y):
    with torch.autocast("cpu", torch.float16, enabled=False):
        return ((model(x) - y) ** 2).mean()
train(Model())
"""
    )
    ran = run(folder, source, "bf16")
    assert ran.outcome.applied == 8
    assert not ran.outcome.declined


def test_the_optimizer_is_fused_where_the_script_leaves_the_choice_open(folder):
    source = (
        TRAINS
        + """
for make in (
    lambda p: torch.optim.AdamW([{"params": (each for each in p)}], 1e-3),
    lambda p: torch.optim.SGD(p, 1e-3),
    lambda p: torch.optim.Adam(p, 1e-3, foreach=False),
    lambda p: torch.optim.RMSprop(p, 1e-3),
):
    optimizer = make(Model().parameters())
    print(*[optimizer.param_groups[0].get(each) for each in ("fused", "foreach")])
"""
    )
    ran = run(folder, source, "fused-optimizer")
    assert ran.code == 0, ran.complained
    assert ran.printed == ["True None", "True None", "None False", "None True"]
    assert ran.outcome.applied == 3


INFERS = (
    TRAINS
    + """
model = Model().eval()
for _ in range(30):
    y = model(torch.ones(1, 3, 8, 8))
    y.requires_grad or y.clamp_(-5, 5)
print(y.requires_grad, y.is_inference(), y.sum().item())
"""
)


@pytest.mark.parametrize(("mode", "inference"), [("inference", True), ("no-grad", False)])
def test_no_graph_is_kept_without_a_backward_pass(mode, inference, folder):
    ran = run(folder, INFERS, ("inference-mode", {"mode": mode}))
    assert ran.code == 0, ran.complained
    assert ran.outcome.applied == 1
    requires, is_inference, value = ran.printed[0].split()
    assert (requires, is_inference) == ("False", str(inference))
    assert value == run(folder, INFERS).printed[0].split()[2]


def test_inference_mode_declines_where_the_script_trains(folder, plain):
    ran = run(folder, TRAIN, "inference-mode")
    assert ran.numbers == plain
    assert ran.outcome.declined == "the script trains"


def test_the_number_of_threads_is_set_unless_it_is_that_already(folder):
    source = TRAINS + "Model()(torch.ones(1, 3, 8, 8))\nprint(torch.get_num_threads())"
    three, one = (run(folder, source, ("threads", {"threads": each})) for each in (3, 1))
    assert three.printed == ["3"]
    assert three.outcome.applied == 1
    assert one.outcome.declined == "it runs on 1 already"


def test_compile_declines_where_the_script_compiles_by_itself(folder):
    source = f"{TRAINS}\ntrain(torch.compile(Model(), backend='aot_eager'))"
    ran = run(folder, source, ("compile", EAGER))
    assert ran.code == 0, ran.complained
    assert ran.outcome.declined == "the script compiles by itself"


def test_what_cannot_be_compiled_fails_with_its_own_error(folder):
    ran = run(folder, TRAIN, ("compile", {"backend": "no-such-backend"}))
    assert ran.code != 0
    assert "no-such-backend" in ran.complained


def test_blocks_with_batch_norm_are_not_checkpointed(folder):
    source = TRAIN.replace("nn.Dropout(0.1)", "nn.BatchNorm2d(8)")
    ran = run(folder, source, "checkpointing-on")
    assert ran.outcome.applied == 0
    assert ran.outcome.declined == "no repeated block without BatchNorm is trained"


def test_checkpointing_declines_where_the_script_checkpoints(folder, plain):
    ran = run(folder, CHECKPOINTS, "checkpointing-on")
    assert ran.numbers == plain
    assert ran.outcome.declined == "the script checkpoints by itself"


GPU_ONLY = {
    "tf32": "no model on a GPU",
    "cudnn-benchmark": "no model on a GPU",
    "allocator": "no model on a GPU",
    "fused-group-norm": "no model on a GPU",
    "no-empty-cache": "no cache of a GPU was emptied",
    "non-blocking": "no copy from pinned memory to a GPU",
}


def test_without_a_gpu_what_needs_one_says_so(folder, plain):
    source = TRAIN + "torch.cuda.empty_cache()\ntorch.ones(1).to('cpu')\n"
    source = "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = ''\n" + source
    ran = run(folder, source, *GPU_ONLY)
    assert ran.code == 0, ran.complained
    assert {each.name: each.declined for each in ran.outcomes} == GPU_ONLY
    assert ran.numbers == plain


def test_the_allocator_keeps_what_the_user_has_set(monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128")
    environment = find_change("allocator").environment({})
    assert environment == {
        "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128,expandable_segments:True"
    }


@pytest.mark.parametrize(
    ("given", "named", "copies"),
    [
        (("cuda",), {}, True),
        ((0,), {}, True),
        ((torch.device("cuda", 1), torch.float16), {}, True),
        ((), {"device": "cuda:0"}, True),
        (("cpu",), {}, False),
        ((torch.float16,), {}, False),
        ((torch.ones(1),), {}, False),
        (("cuda", torch.float32, False), {}, False),  # the script has chosen to wait
    ],
)
def test_only_copies_to_a_gpu_go_on_without_waiting(given, named, copies):
    from pitstop.tune.changes.non_blocking import _to_gpu

    assert _to_gpu(torch.Tensor.to, given, named) == copies


@pytest.mark.parametrize(
    ("copy", "applied"),
    [
        ('x.to("cuda")', 1),
        ('x.to("cuda", non_blocking=False)', 1),
        ('x.to("cuda", non_blocking=True)', 0),
        ('x.to("cpu")', 0),
        ('accelerate.utils.send_to_device({"x": [x]}, "cuda")', 1),
    ],
)
def test_a_copy_that_waits_because_a_library_says_so_need_not(copy, applied, folder):
    source = f"""
import contextlib
import accelerate
import torch
torch.Tensor.is_pinned = lambda _: True  # as far as the change can see
x = torch.ones(1)
with contextlib.suppress(Exception):  # here is no GPU
    {copy}
"""
    ran = run(folder, source, "non-blocking")
    assert ran.code == 0, ran.complained
    assert ran.outcome.applied == applied


TOGGLED = [
    "bf16",
    "fp16",
    "channels-last",
    "fused-optimizer",
    "checkpointing-on",
    ("threads", {"threads": 2}),
    ("compile", EAGER),
]


@pytest.mark.parametrize("change", TOGGLED, ids=str)
def test_can_be_switched_off_and_on_between_steps(change, folder):
    source = f"{TRAINS}\ntrain(Model(), epochs=5)"
    ran = run(folder, source, change, toggle=Toggle(steps=1, warmup=3))
    assert ran.code == 0, ran.complained
    assert "pitstop:" not in ran.complained
    assert [block.on for block in ran.blocks[:6]] == [False, True, True, False, False, True]
    assert all(math.isfinite(each) for each in ran.numbers)
    assert len(ran.numbers) == 20


def test_everything_that_toggles_says_so():
    toggling = {each.name for each in load_changes(pitstop.tune.changes) if each.toggles}
    assert set(NAMES) - toggling == {
        "allocator",
        "batch-size",
        "cudnn-benchmark",  # torch remembers each shape's algorithm, on or off
    }


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("tf32", "torch.backends.cuda.matmul.allow_tf32"),
        ("cudnn-benchmark", "torch.backends.cudnn.benchmark"),
    ],
)
def test_one_switch_is_for_all_models(name, flag, folder):
    source = f"""
import torch
import pitstop.tune.script
pitstop.tune.script.device_of = lambda _: "cuda"  # as far as the change can see
torch.backends.cudnn.allow_tf32 = False
for model in (torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)):
    model(torch.ones(1))
    print({flag})
"""
    ran = run(folder, source, name)
    assert ran.printed == ["True", "True"], ran.complained
    assert (ran.outcome.applied, ran.outcome.declined) == (1, "")


@ON_GPU
@pytest.mark.parametrize("name", ["tf32", "cudnn-benchmark", "allocator"])
def test_takes_hold_on_a_gpu(name, folder):
    source = TRAIN.replace("Model())", "Model().cuda())").replace(
        "model(x) - y", "model(x.cuda()) - y.cuda()"
    )
    ran = run(folder, source, name)
    assert ran.code == 0, ran.complained
    assert ran.outcome.applied > 0


@ON_GPU
def test_pinned_batches_are_copied_without_waiting_and_caches_are_kept(folder):
    source = """
import torch
x = torch.arange(1000.0).pin_memory()
print(x.cuda().sum().item(), x.to("cuda").sum().item())
torch.cuda.empty_cache()
"""
    ran = run(folder, source, "non-blocking", "no-empty-cache")
    assert ran.printed == ["499500.0 499500.0"]
    assert [each.applied for each in ran.outcomes] == [2, 1]
