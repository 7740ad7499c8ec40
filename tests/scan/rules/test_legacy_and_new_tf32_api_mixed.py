import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.facts import read_facts
from pitstop.scan.project import Project
from pitstop.scan.rules.legacy_and_new_tf32_api_mixed import legacy_and_new_tf32_api_mixed
from pitstop.scan.source import Source

NEW = 'torch.backends.cudnn.conv.fp32_precision = "tf32"'
MATMUL, CUDNN = "torch.backends.cuda.matmul", "torch.backends.cudnn"


@pytest.mark.parametrize(
    "lines",
    [
        f"{MATMUL}.allow_tf32 = True\n{CUDNN}.allow_tf32 = True",  # all of the older one
        f'{NEW}\n{MATMUL}.fp32_precision = "ieee"',  # all of the newer one
        f"{NEW}\nprint({MATMUL}.allow_tf32)",
    ],
)
def test_leaves_alone(lines):
    assert legacy_and_new_tf32_api_mixed(Source(f"import torch\n{lines}\n")) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{MATMUL}.allow_tf32 = False", f'{MATMUL}.fp32_precision = "ieee"'),
        (
            f"{CUDNN}.allow_tf32 = True",
            f'{CUDNN}.conv.fp32_precision = {CUDNN}.rnn.fp32_precision = "tf32"',
        ),
        ("torch.set_float32_matmul_precision('high')", f'{MATMUL}.fp32_precision = "tf32"'),
        (
            f"{MATMUL}.allow_tf32 = args.tf32",
            f'{MATMUL}.fp32_precision = "tf32" if args.tf32 else "ieee"',
        ),
    ],
)
def test_fix(before, after):
    text = f"import torch\n{before}  # as before\n{NEW}\n"
    (finding,) = legacy_and_new_tf32_api_mixed(Source(text))
    fixed = apply_fix(text, finding.fix)
    assert fixed == f"import torch\n{after}  # as before\n{NEW}\n"
    assert legacy_and_new_tf32_api_mixed(Source(fixed)) == []


def project(**files):
    sources = [Source(f"import torch\n{text}\n", f"{name}.py") for name, text in files.items()]
    whole = Project.of([read_facts(each) for each in sources])
    return [each.in_project(whole) for each in sources]


def test_is_reported_once_and_fixed_in_every_file():
    sources = project(a=f"{MATMUL}.allow_tf32 = True", b=f"{CUDNN}.allow_tf32 = True", c=NEW)
    findings = [found for each in sources for found in legacy_and_new_tf32_api_mixed(each)]
    assert [each.span.path for each in findings] == ["a.py"]
    assert "c.py:2" in findings[0].message
    fixed = [apply_fix(each.text, findings[0].fix, each.path) for each in sources]
    assert "allow_tf32" not in "".join(fixed)


def test_fixes_nothing_when_one_of_them_cannot_be_moved():
    sources = project(a=f"{MATMUL}.allow_tf32 = True", b=f"{CUDNN}.allow_tf32 = f(x) > 2", c=NEW)
    (finding,) = legacy_and_new_tf32_api_mixed(sources[0])
    assert finding.fix is None
