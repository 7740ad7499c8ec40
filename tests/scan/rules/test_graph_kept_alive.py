import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.rules.graph_kept_alive import graph_kept_alive
from pitstop.scan.source import Source

LOOP = """\
import torch
total, losses, totals, scale = 0.0, [], {{}}, args.scale
for batch in train_loader:
    kind = model(batch).mean()
    loss = kind * 2 / scale
    loss.backward()
    {line}
"""


@pytest.mark.parametrize(
    "line",
    [
        "total += loss.item()",
        "total += loss.detach()",
        "total += float(loss)",
        "losses.append(loss.cpu().item())",
        "total += len(batch)",
        "total += batch",  # nobody calls backward on it
        "last = loss",  # the next step overwrites it
        "losses = []; losses.append(loss)",  # starts anew in each step
        "loss = loss.item(); total += loss",
        "loss = loss.detach(); losses.append(loss)",
        "total += loss; total.backward()",  # its graph is needed
        "meter.update(loss)",
        "total += scale",  # a number that the loss was divided by
        "total += args.scale",
    ],
)
def test_leaves_alone(line):
    assert graph_kept_alive(Source(LOOP.format(line=line))) == []


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("losses.append(loss)", "losses.append(loss.detach())"),
        ("total += loss * len(batch)", "total += loss.detach() * len(batch)"),
        ("total += loss.mean()", "total += loss.detach().mean()"),
        ("totals['loss'] += loss", "totals['loss'] += loss.detach()"),
        ("self.total += loss", "self.total += loss.detach()"),
        ("total += kind", "total += kind.detach()"),  # a term of the loss has the same graph
    ],
)
def test_fix(line, fixed):
    text = LOOP.format(line=line)
    (finding,) = graph_kept_alive(Source(text))
    assert apply_fix(text, finding.fix) == LOOP.format(line=fixed)
    assert graph_kept_alive(Source(LOOP.format(line=fixed))) == []


@pytest.mark.parametrize(
    "backward", ["scaler.scale(loss).backward()", "accelerator.backward(loss)"]
)
def test_knows_who_else_runs_backward(backward):
    text = LOOP.format(line="total += loss").replace("loss.backward()", backward)
    assert len(graph_kept_alive(Source(text))) == 1


def test_quiet_when_the_sum_is_differentiated_after_the_loop():
    text = LOOP.format(line="total += loss") + "total.backward()\n"
    assert graph_kept_alive(Source(text)) == []


def test_quiet_without_gradients():
    text = LOOP.format(line="with torch.no_grad(): total += loss")
    assert graph_kept_alive(Source(text)) == []


HELPER = "def finish(value):\n    value.backward()\n\n"


def test_quiet_when_a_helper_differentiates_the_sum():
    text = HELPER + LOOP.format(line="total += loss") + "finish(total)\n"
    assert graph_kept_alive(Source(text)) == []


@pytest.mark.parametrize(
    ("line", "safe"),
    [
        ("total += loss", True),
        ("losses.append(loss)", True),
        ("total += kind", False),  # a tensor by all signs, but no backward was called on it
        ("totals['loss'] += loss", False),  # who else holds the dictionary?
        ("self.total += loss", False),
    ],
)
def test_the_fix_is_safe_where_the_sum_goes_nowhere_and_backward_has_run(line, safe):
    (finding,) = graph_kept_alive(Source(LOOP.format(line=line) + "print(total, losses[-1])\n"))
    assert finding.fix.safe is safe


@pytest.mark.parametrize(
    "later", ["use(total)", "other = [total]", "self.total = total", "mean = total / 2\nuse(mean)"]
)
def test_the_fix_is_not_safe_where_the_sum_goes_on(later):
    (finding,) = graph_kept_alive(Source(LOOP.format(line="total += loss") + f"{later}\n"))
    assert not finding.fix.safe
