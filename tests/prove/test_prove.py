"""``pitstop prove`` on a real script: wrong edits are refused, whatever they save."""

import pytest

from pitstop.cli import main
from pitstop.core import store
from pitstop.core.report import Report
from prove.trees import git, make, write

pytest.importorskip("torch")

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 32)
        self.body = nn.Linear(32, 32)
        self.side = nn.Linear(32, 8)
        self.tail = nn.Linear(32, 8)
    def forward(self, x):
        x = torch.relu(self.head(x))
        side = self.side(x)
        x = torch.relu(self.body(x))
        return self.tail(x) + side

def loss_of(out, x):
    return (out - x).abs().mean() + 0.1 * (out - x).square().mean()
"""
TRAIN = """
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset
from net import Net, loss_of

STEPS = 24
torch.manual_seed(0)
data = torch.rand(256, 8)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), float(sys.argv[1]))
for step, (x,) in enumerate(DataLoader(TensorDataset(data), batch_size=8, shuffle=True)):
    if step == STEPS:
        break
    optimizer.zero_grad()
    loss = loss_of(net(x), x)
    loss.backward()
    optimizer.step()
print("loss", loss.item())
"""


@pytest.fixture
def top(tmp_path, monkeypatch):
    folder = make(tmp_path / "repository", **{"net.py": NET, "train.py": TRAIN})
    monkeypatch.chdir(folder)
    return folder


def edit(top, name, old, new):
    text = (top / name).read_text()
    assert old in text
    write(top, {name: text.replace(old, new)})


def prove(top, *options, rate="1e-1"):
    words = ["prove", "--output", "proof.json", "--force", "--steps", "28", *options]
    code = main.run([*words, "--", "train.py", rate])
    report = store.load(top / "proof.json", Report) if (top / "proof.json").exists() else None
    return code, report


WRONG = {
    "a dropped term": ("net.py", " + 0.1 * (out - x).square().mean()", "", "loss"),
    "a percent of scale": (
        "net.py",
        "return (out - x).abs()",
        "return 1.01 * (out - x).abs()",
        "loss",
    ),
    "half of the steps": ("train.py", "STEPS = 24", "STEPS = 12", ""),
    "a detached branch": ("net.py", "self.side(x)", "self.side(x.detach())", "gradient"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_edit_is_refused(name, top):
    file, old, new, quantity = WRONG[name]
    edit(top, file, old, new)
    code, report = prove(top, rate="1e-7")  # so small that losses of later steps hardly tell
    assert (code, report.proved) == (5, "drifted"), report
    assert report.parted.quantity == quantity
    assert report.comparisons == ()


@pytest.mark.slow
def test_drift_names_the_module_in_which_it_begins(top):
    edit(top, "net.py", "torch.relu(self.body(x))", "torch.relu(self.body(x) * 1.05)")
    write(
        top,
        {
            "net.py": (top / "net.py")
            .read_text()
            .replace(
                "self.body = nn.Linear(32, 32)",
                "self.body = nn.Linear(32, 32)\n"
                "        self.body.register_forward_hook(lambda m, i, o: o * 1.05)",
            )
        },
    )
    code, report = prove(top)
    assert (code, report.parted.step, report.parted.module) == (5, 1, "Net.body")


@pytest.mark.slow
def test_an_edit_that_fails_shows_its_error_and_one_line_of_ours(top, capfd):
    edit(top, "net.py", "self.tail(x)", "self.tial(x)")
    assert prove(top)[0] == 2
    said = capfd.readouterr().err
    ours = [line for line in said.splitlines() if line.startswith("pitstop:")]
    assert len(ours) == 1
    assert (
        "the edit fails: AttributeError: 'Net' object has no attribute 'tial' (net.py:16)"
        in ours[0]
    )


@pytest.mark.slow
def test_an_equal_edit_holds_is_timed_and_leaves_nothing_behind(top):
    edit(top, "net.py", "side = self.side(x)", "side = self.side(x)  # as before")
    before = git(top, "status", "--porcelain"), git(top, "worktree", "list")
    code, report = prove(top, "--budget", "10")
    assert report.parted is None
    assert report.checks[0].value == "every loss equal"
    assert report.proved in {"same", "inconclusive"}  # a test machine is noisy
    assert code in {3, 4}
    (top / "proof.json").unlink()
    assert (git(top, "status", "--porcelain"), git(top, "worktree", "list")) == before


@pytest.mark.slow
def test_a_package_that_is_installed_as_editable_is_that_of_each_side(top, tmp_path):
    site = tmp_path / "site"
    write(site, {"__editable__.net.pth": str(top / "src")})
    write(top, {"src/net.py": NET})
    (top / "net.py").unlink()
    git(top, "add", "-A")
    git(top, "commit", "-qm", "packaged")
    edit(top, "src/net.py", "0.1 * (out", "0.2 * (out")
    program = (
        "import site, sys\n"
        f"sys.argv[0] = 'train.py'\nsite.addsitedir({str(site)!r})\n"
        "exec(compile(open('train.py').read(), 'train.py', 'exec'))\n"
    )
    write(top, {"run.py": program})  # git does not know of it: it is there on both sides
    words = ["prove", "--steps", "28", "--output", "proof.json", "--", "run.py", "0.1"]
    assert main.run(words) == 5
    assert store.load(top / "proof.json", Report).parted.step == 1


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ([], "no script given"),
        (["no.py"], "no.py: no such file"),
        (["--base", "nowhere", "train.py"], "nowhere: no such revision"),
        (["--metric", "psnr", "train.py"], "parentheses"),
        (["--budget", "0", "train.py"], "--budget"),
    ],
)
def test_a_mistake_is_one_line(arguments, hint, top, capsys):
    assert main.run(["prove", *arguments]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("pitstop:")]
    assert len(said) == 1
    assert hint in said[0]


def test_a_script_that_the_base_does_not_have_is_said(top, capsys):
    write(top, {"late.py": "import net\n"})
    git(top, "add", "late.py")
    assert main.run(["prove", "late.py"]) == 2
    assert "late.py is not in" in capsys.readouterr().err
    assert main.run(["prove", str(top / "late.py")]) == 2
    assert "late.py is not in" in capsys.readouterr().err
