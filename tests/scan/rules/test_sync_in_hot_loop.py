import pytest

from pitstop.scan.rules.sync_in_hot_loop import sync_in_hot_loop
from pitstop.scan.source import Source

LOOP = "for i, x in enumerate(train_loader):\n    loss = model(x)\n    loss.backward()\n    "


@pytest.mark.parametrize(
    "line",
    [
        "if i % 100 == 0:\n        print(loss.item())",
        "seed = torch.randint(0, 9, (1,)).item()",  # of the CPU
        "if torch.rand(1) < 0.5:\n        pass",
        "size = int(torch.rand([]) ** 2 * 8)",
        "best = np.max(scores).item()",
        "total += loss.detach()",
        "n = int(x.shape[0])",
        "n = float(rate)",  # unknown
        "assert loss > 0, f'{loss}'",  # only when it fails
        "if torch.isnan(loss):\n        pass",  # another rule's
        "hooks.append(lambda: loss.item())",
        "if args.debug:\n        print(loss.item())",
        "model.cpu()",
        "n = sizes[0] if torch.is_tensor(sizes[0]) == False else sizes[0].item()",
        "while viewer.conn != None:\n        send(image.byte().cpu())",
    ],
)
def test_leaves_alone(line):
    assert sync_in_hot_loop(Source(f"import torch, numpy as np\n{LOOP}{line}\n")) == []


@pytest.mark.parametrize(
    "line",
    [
        "total += loss.item()",
        "total += float(loss)",
        "print(f'{loss:.3f}')",
        "if loss > 4:\n        pass",
        "log(loss.detach().cpu())",
        "rows = (labels == x).nonzero()",
        "rows = (labels == x).nonzero(as_tuple=False).view(-1)",
        "print(loss.item(), other.item())",  # once per statement
        "if loss == 0:\n        a()\n    elif loss == 1:\n        b()",
    ],
)
def test_finds(line):
    (finding,) = sync_in_hot_loop(Source(f"import torch\n{LOOP}{line}\n"))
    assert finding.confidence == "suspected"


@pytest.mark.parametrize(
    "text",
    [
        "print(loss.item())",
        "for epoch in range(9):\n    print(loss.item())",
        "with torch.no_grad():\n    for x in val_loader:\n        total += model(x).item()",
        # pictures have to come to the CPU to be written, results to be judged
        "for x in loader:\n    save(model(x).clamp(0, 1).cpu())",
        "def get_visuals(y):\n    return y.detach().cpu()\nfor x in loader:\n    get_visuals(x)",
        "x = torch.cat(a)\nfor y in x:\n    Image.fromarray(y.byte().cpu().numpy()).save(path)",
        "def export_splats(y):\n    return y.max().item()\nfor x in loader:\n    export_splats(x)",
        "for n in range(num_batches):\n    n.item()",
        "class D(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n"
        "        return self.x[i].item()",
    ],
)
def test_quiet_outside_the_steps_of_training(text):
    assert sync_in_hot_loop(Source(f"import torch\n{text}\n")) == []


@pytest.mark.parametrize(
    "text",
    [
        "class N(torch.nn.Module):\n    def forward(self, x):\n        return x.max().item()",
        # the step is a method, and no loop around it runs backward itself
        "class T:\n    def step(self, x):\n        x.backward()\n        return x\n"
        "    def epoch(self):\n        for i in order:\n            self.step(i).item()",
        "def f(poses: torch.Tensor):\n    for p in poses:\n        score(draw(p).add(1).cpu())",
        "def f(x):\n    return [(x == t).nonzero().item() for t in timesteps]\n"
        "for x in train_loader:\n    f(x)",
    ],
)
def test_finds_what_runs_per_step_without_a_loader(text):
    assert len(sync_in_hot_loop(Source(f"import torch\n{text}\n"))) == 1


MASK = "class N(torch.nn.Module):\n    def forward(self, x: torch.Tensor, m, n):\n        {line}"


@pytest.mark.parametrize(
    "line",
    [
        "return (x[x > 0] ** 2).mean()",
        "near = x < 9; valid = near & torch.isfinite(x); return x[valid]",
        "x[torch.isin(x, m)] = x.mean()",
        "x[x > 0] *= 2",
        "return x[~m].reshape(2, -1)",
    ],
)
def test_a_mask_as_index_waits_for_how_many_are_true(line):
    (finding,) = sync_in_hot_loop(Source(f"import torch\n{MASK.format(line=line)}\n"))
    assert finding.message.startswith("A mask as index makes Python wait")


@pytest.mark.parametrize(
    "line",
    [
        "x[x > 0] = 0",  # fills, whatever there is
        "x[x > 0] = torch.tensor(1.0)",
        "x[x > 0] = n",
        "return x[x.argmax(1)]",  # numbers, not a mask
        "return x[m]",
        "return torch.where(x > 0, x, 0)",
        "return m[~n]",  # may be NumPy's
        "return x[n > 3]",
    ],
)
def test_an_index_that_waits_for_nobody(line):
    assert sync_in_hot_loop(Source(f"import torch\n{MASK.format(line=line)}\n")) == []
