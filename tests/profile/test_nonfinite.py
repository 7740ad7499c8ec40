"""Which operation, input or weight a loss that is not finite is traced back to."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from pitstop.profile.forensics import packed
from pitstop.profile.forensics.culprit import UNREAD, find_culprit
from pitstop.profile.forensics.graph import Reference, nodes_of, place
from pitstop.profile.forensics.nonfinite import Forensics

NAN, INF = float("nan"), float("inf")


@pytest.fixture
def h():
    """The output of a layer: positive numbers between 0 and 1, with a graph."""
    torch.manual_seed(0)
    return nn.Linear(6, 4)(torch.randn(5, 6)).sigmoid()


def culprit(loss):
    assert not torch.isfinite(loss)
    with torch.no_grad():
        return find_culprit(loss, nodes_of(loss), sys._getframe(1))


def zero_first(h):
    mask = torch.ones_like(h)
    mask[0] = 0
    return h * mask


@pytest.mark.parametrize(
    ("make", "operation", "detail"),
    [
        (lambda h: zero_first(h).log().mean(), "log", "of 4 numbers that are zero or less"),
        (lambda h: (h - h.detach()).log().sum(), "log", "of 20 numbers that are zero or less"),
        (lambda h: h.sum() / torch.zeros(()), "div", "by a number that is zero"),
        (lambda h: h.sum() / (h > 2).sum(), "div", "by a number that is zero"),
        (lambda h: (h / 0).mean(), "div", "by a number that is zero"),
        (lambda h: h[h > 2].mean(), "mean", "of no number at all"),
        (lambda h: h[h > 2].mean() + h.mean() * 3, "mean", "of no number at all"),
        (lambda h: (h * 1e3).exp().sum(), "exp", "of numbers too large for it"),
        (lambda h: (h - 1).sqrt().mean(), "sqrt", "of numbers below zero"),
        (
            lambda h: (h * 0).pow(-1).mean(),
            "pow",
            "of 20 numbers that are zero, to a negative power",
        ),
        (
            lambda h: ((h - 1) ** 0.5).mean(),
            "pow",
            "of 20 numbers that are below zero, to a fractional power",
        ),
        (lambda h: zero_first(h).reciprocal().sum(), "reciprocal", "of zero"),
        (lambda h: (1 / zero_first(h)).sum(), "reciprocal", "of zero"),
        (lambda h: zero_first(h).rsqrt().sum(), "rsqrt", "of zero"),
        (
            lambda h: h.masked_fill(torch.ones(5, 4, dtype=torch.bool), -INF).softmax(1).sum(),
            "softmax",
            "of a row that is minus infinity throughout",
        ),
        (
            lambda h: F.cross_entropy(h, torch.full((5,), -100)),
            "nll_loss",
            "over no target: all of them are ignored",
        ),
        (lambda h: (h * 3).acos().sum(), "acos", None),
        (lambda h: (h * 1e30 * 1e30).square().sum(), "mul", ""),
        pytest.param(
            lambda h: h[:1, 0].std() + h.sum(),
            "std",
            "of a single number",
            marks=pytest.mark.filterwarnings("ignore:std"),
        ),
    ],
)
def test_the_operation_is_named(make, operation, detail, h):
    found = culprit(make(h))
    assert (found.phase, found.operation) == ("forward", operation)
    assert detail is None or found.detail == detail


def test_what_is_masked_later_is_not_to_blame(h):
    safe = torch.where(h > 2, zero_first(h).log(), 0.0).mean()
    loss = safe + (h.sum() - h.sum()).log()
    found = culprit(loss)
    assert found.detail == "of a number that is zero or less"


def test_a_mask_of_minus_infinity_is_not_to_blame(h):
    causal = torch.full((5, 5), -INF).triu(1)
    attended = ((h @ h.T) + causal).softmax(1)
    loss = (attended.sum() - 5).abs() + zero_first(h).log().sum()
    assert culprit(loss).operation == "log"


def test_a_bad_batch_is_the_input(h):
    x = torch.randn(5, 6)
    x[2, 3] = NAN
    found = culprit(nn.Linear(6, 4)(x).square().mean())
    assert (found.phase, found.operation) == ("input", "addmm")
    assert found.detail == "1 of 30 numbers of `x` are not finite"


def test_a_bad_target_is_the_input_though_a_difference_keeps_nothing(h):
    batch = {"target": torch.zeros(5, 4)}
    batch["target"][0] = NAN
    found = culprit((h - batch["target"]).square().mean())
    assert (found.phase, found.operation) == ("input", "sub")
    assert found.detail == "4 of 20 numbers of `batch` are not finite"


def test_a_value_computed_without_a_gradient_has_its_own_line(h):
    count = torch.zeros(())
    scale = 1 / count
    line = sys._getframe().f_lineno - 1
    found = culprit((h * scale).sum())
    assert (found.phase, found.operation, found.place[1]) == ("forward", "div", line)


def steep(x):
    return x.square().sum(1).sqrt()


def test_weights_gone_bad_point_to_the_operation_with_an_infinite_gradient():
    layer, last = nn.Linear(6, 4), nn.Linear(1, 1)
    with torch.no_grad():
        layer.weight.fill_(NAN)
        layer.bias.fill_(NAN)
    h = steep(layer(torch.zeros(5, 6)))
    found = culprit(last(h[:, None]).mean())
    assert (found.phase, found.operation) == ("backward", "sqrt")


def test_of_two_such_operations_the_one_behind_the_good_weights_is_innocent():
    bad, good = nn.Linear(6, 4), nn.Linear(6, 4)
    with torch.no_grad():
        bad.weight.fill_(NAN)
    x = torch.randn(5, 6)
    found = culprit((steep(bad(x)) + (good(x).sigmoid() ** 0.5).sum(1)).mean())
    assert (found.phase, found.operation) == ("backward", "sqrt")


def test_a_masked_logarithm_has_a_bad_gradient_too():
    layer = nn.Linear(6, 4)
    with torch.no_grad():
        layer.weight.fill_(NAN)
    y = layer(torch.randn(5, 6))
    found = culprit(torch.where(y > 0, y.log(), y).mean())
    assert (found.phase, found.operation) == ("backward", "log")


def test_weights_gone_bad_without_such_an_operation():
    layer = nn.Linear(6, 4)
    with torch.no_grad():
        layer.weight[0, 0] = INF
    found = culprit(layer(torch.randn(5, 6)).mean() * 0)
    assert (found.phase, found.operation) == ("weights", "addmm")
    assert found.detail == "1 parameters are not finite after an optimizer step"


def test_weights_too_large_to_compute_with():
    layer = nn.Linear(6, 4)
    with torch.no_grad():
        layer.weight.mul_(1e30)
    found = culprit(layer(torch.randn(5, 6)).square().mean())
    assert (found.phase, found.detail[:21]) == ("weights", "weights as large as 4")


def test_what_checkpointing_would_compute_again_is_left_alone():
    layer = nn.Linear(6, 4)
    calls = []

    def block(x):
        calls.append(1)
        return (layer(x) - 1e9).log()

    loss = checkpoint(block, torch.randn(5, 6), use_reentrant=False).sum()
    culprit(loss)
    assert len(calls) == 1
    loss.backward()
    assert len(calls) == 2


def test_without_being_told_of_hooks_none_is_run_and_what_has_none_is_read():
    layer = nn.Linear(6, 4)
    calls = []

    def block(x):
        calls.append(1)
        return layer(x).sigmoid()

    hooked = checkpoint(block, torch.randn(5, 6), use_reentrant=False).grad_fn
    plain = layer(torch.randn(5, 6)).sigmoid()
    assert packed.read(hooked, "_saved_result") is None
    assert packed.read(plain.grad_fn, "_saved_result").equal(plain)
    assert len(calls) == 1
    assert sys.getprofile() is None


def test_a_script_that_profiles_itself_keeps_its_profiler_and_no_operation_is_blamed(
    h, monkeypatch
):
    def own(*_):
        pass

    monkeypatch.setattr(packed, "TELLS", False)
    loss = zero_first(h).log().mean()
    before = sys.getprofile()
    sys.setprofile(own)
    try:
        found, after = culprit(loss), sys.getprofile()
    finally:
        sys.setprofile(before)
    assert after is own
    assert (found.phase, found.operation, found.detail) == ("", "", UNREAD)


def test_the_losses_before_tell_an_explosion():
    layer = nn.Linear(6, 4)
    forensics = Forensics()
    for step, loss in enumerate([0.5, 0.4, 20.0, 3e4, 2e9], 1):
        forensics.backward_begins(torch.zeros(()), loss, step, sys._getframe())
    root = (layer(torch.randn(5, 6)) * 1e30 * 1e30).sum()
    forensics.backward_begins(root, INF, 6, sys._getframe())
    (note,) = forensics.note(last=True)
    assert note["non_finite"]["phase"] == "weights"
    assert note["non_finite"]["detail"] == "the loss had grown from 20 to 2e+09"


def test_only_the_first_bad_step_is_looked_at(h):
    forensics = Forensics()
    for step in (4, 5):
        forensics.backward_begins(zero_first(h).log().sum(), -INF, step, sys._getframe())
    (note,) = forensics.note(last=True)
    assert note["non_finite"]["step"] == 4
    assert list(forensics.note(last=True)) == []


def test_a_bad_step_before_any_inspected_one_asks_for_one_and_gets_its_line(h):
    forensics = Forensics()
    forensics.backward_begins(zero_first(h).log().sum(), -INF, 2, sys._getframe())
    assert forensics.wants_inspection
    assert list(forensics.note()) == []
    flow = SimpleNamespace(
        origins=SimpleNamespace(of=lambda node: (("a.py", 7, node.name()), 0)),
        calls=SimpleNamespace(all=[SimpleNamespace(path="net")]),
    )
    forensics.learn(zero_first(h).log().sum(), flow)
    (note,) = forensics.note()
    assert note["non_finite"]["where"] == ["a.py", 7, "LogBackward0"]
    assert note["non_finite"]["module"] == "net"
    assert not forensics.wants_inspection


def test_lines_come_from_the_graph_that_is_most_alike():
    def there(names):
        return Reference(tuple(names), tuple(("f.py", n, c, "") for n, c in enumerate(names)))

    references = [there("abcabcxyz"), there("abcd")]
    assert place("abcd", 3, references)[1] == 3
    assert place("abcabcabcxyz", 10, references)[1] == 7  # counted from the end
    assert place("abcabqcxyz", 6, references)[1] == 5
    assert place("pqr", 1, references)[1] == 0


SCRIPT = Path(__file__).parent / "scripts" / "nonfinite.py"


def line_of(case):
    lines = SCRIPT.read_text().splitlines()
    return next((n for n, text in enumerate(lines, 1) if text.endswith(f"# {case}")), None)


@pytest.mark.parametrize(
    ("case", "phase", "operation", "step"),
    [
        ("log", "forward", "log", 30),
        pytest.param("count", "forward", "div", 30, marks=pytest.mark.slow),
        pytest.param("weight", "forward", "div", 30, marks=pytest.mark.slow),
        ("sqrt", "backward", "sqrt", 31),  # its gradient at step 30 spoils the weights
        ("sample", "input", "addmm", 30),
        ("rate", "weights", "mean", 31),
    ],
)
def test_a_script_that_goes_wrong_at_step_30(case, phase, operation, step, profiled):
    evidence = profiled("nonfinite.py", case).evidence
    found = evidence.non_finite
    assert (found.phase, found.operation, found.step) == (phase, operation, step)
    assert line_of(case) in {found.where.line, None}
    assert [each.loss_finite for each in evidence.steps].index(False) == step - 1


def test_the_numbers_are_the_same_though_the_graph_was_looked_at(bare, profiled):
    without, with_us = bare("nonfinite.py", "inside"), profiled("nonfinite.py", "inside")
    assert with_us.out == without.out
    assert with_us.evidence.non_finite.where.line == line_of("inside")


def test_a_script_that_goes_wrong_before_it_was_inspected(profiled):
    found = profiled("nonfinite.py", "log", "2").evidence.non_finite
    assert (found.step, found.where.line) == (2, line_of("log"))


def test_a_healthy_script_has_no_such_finding(profiled):
    assert profiled("nonfinite.py", "none").evidence.non_finite is None


def test_a_graph_that_no_inspected_one_equals_asks_for_a_further_look(h):
    forensics = Forensics()
    forensics._references.append(Reference(("SumBackward0",), (("a.py", 1, "f", ""),)))
    loss = (h / (h - h)).sum()
    forensics.backward_begins(loss, float("nan"), 31, sys._getframe())
    assert list(forensics.note()) == []
    assert forensics.wants_inspection
    nodes = nodes_of(loss)
    names = tuple(node.name() for node in nodes)
    places = tuple(("a.py", number, "f", "") for number, _ in enumerate(names, 10))
    forensics._references.append(Reference(names, places))
    (told,) = forensics.note(last=True)
    assert told["non_finite"]["where"][1] == 10 + names.index("DivBackward0")
    assert not forensics.wants_inspection


def test_a_nan_that_the_script_writes_by_name_is_found_at_its_line():
    layer, poked = nn.Linear(3, 2), nn.Linear(2, 1)
    with torch.no_grad():
        poked.weight[0, 0] = float("nan")
    line = sys._getframe().f_lineno - 1
    found = culprit(poked(layer(torch.ones(1, 3))).sum())
    assert (found.phase, found.place[1]) == ("weights", line)


def test_a_nan_written_into_a_batch_is_found_at_its_line():
    layer, batch = nn.Linear(3, 2), torch.ones(1, 3)
    batch[0, 0] = torch.nan
    line = sys._getframe().f_lineno - 1
    found = culprit(layer(batch).sum())
    assert (found.phase, found.place[1]) == ("input", line)
