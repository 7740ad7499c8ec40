import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.facts import read_facts
from pitstop.scan.project import Project
from pitstop.scan.rules.fp32_matmul_without_tf32 import SWITCH, fp32_matmul_without_tf32
from pitstop.scan.source import Source

MODEL = """import torch
class Net(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(self.q(x) @ x.mT, -1) @ x

q, norm = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)
"""
TRAIN = """import torch
{extra}
def main():
    net = Net().cuda()
    for clip in loader:
        net(clip).mean().backward()
if __name__ == "__main__":
    main()
"""


def found(model=MODEL, extra="", **files):
    texts = {"models/net.py": model, "train.py": TRAIN.replace("{extra}", extra), **files}
    sources = [Source(text, path) for path, text in texts.items()]
    project = Project.of([read_facts(each) for each in sources])
    rule = fp32_matmul_without_tf32
    return [each for source in sources for each in rule(source.in_project(project))]


@pytest.mark.parametrize(
    "changed",
    [
        {"extra": "torch.backends.cuda.matmul.allow_tf32 = True"},
        {"extra": "torch.backends.cuda.matmul.allow_tf32 = False"},  # meant
        {"extra": "torch.set_float32_matmul_precision('medium')"},
        {"extra": "torch.backends.cuda.matmul.fp32_precision = 'tf32'"},
        {"extra": "scaler = torch.cuda.amp.GradScaler()"},
        {"extra": "Net().half()"},
        {"extra": "weights = load(torch.bfloat16)"},
        {"extra": "import accelerate\na = accelerate.Accelerator()"},  # its config may say bf16
        {"model": "import torch\nconv = torch.nn.Conv2d(3, 8, 3)\n"},  # convolutions use it unasked
        {"model": "import torch\nhead = torch.nn.Linear(8, 8)\n"},  # too little to gain
        {"model": "import torch\ny = torch.matmul(torch.softmax(x, -1), x)\n"},  # between 1x1 convs
        {"options.yaml": "train:\n  precision: 16\n"},
    ],
)
def test_leaves_alone(changed):
    assert found(**changed) == []


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"extra": "torch.backends.cudnn.allow_tf32 = True"},  # convolutions only, and the default
        {
            "model": MODEL + "kind = torch.float16 if fp16 else torch.float32\n"
        },  # a flag nobody sets
        {"tests/test_train.py": TRAIN, "tools/train.py": TRAIN},  # once for the project
    ],
)
def test_finds_it_once_in_the_training_script(changed):
    (finding,) = found(**changed)
    assert finding.span is not None
    assert (finding.span.path, finding.span.line) == ("train.py", 1)


def test_fix_is_not_a_safe_one():
    (finding,) = found()
    assert not finding.fix.safe
    assert apply_fix(TRAIN, finding.fix).startswith(f"import torch\n{SWITCH}\n")
