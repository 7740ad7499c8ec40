"""Each change takes hold of a real script from outside, and does to its numbers what it says."""

import pytest

pytest.importorskip("torch")

import torch

import pitstop.tune.changes
from pitstop.tune.change import find_change, load_changes
from tune.running import CHECKPOINTS, TRAIN, TRAINS, run

pytestmark = pytest.mark.slow  # real processes by the dozen: `make test-slow`

EAGER = {"backend": "aot_eager"}  # Dynamo and autograd as always; no C++ compiler is needed
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


def test_every_change_says_what_it_does():
    for each in load_changes(pitstop.tune.changes):
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
    "cuda-graphs": "no model on a GPU",
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
import pitstop.tune.inside.script
pitstop.tune.inside.script.device_of = lambda _: "cuda"  # as far as the change can see
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
