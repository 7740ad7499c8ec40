"""Autocast from outside takes hold of a real script, and leaves alone what is none of its own."""

import pytest

pytest.importorskip("torch")

from tune.running import CHECKPOINTS, TRAIN, TRAINS, run

pytestmark = pytest.mark.slow  # real processes by the dozen: `make test-slow`


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


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
