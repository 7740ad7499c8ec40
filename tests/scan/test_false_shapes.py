"""Shapes that public code was wrongly told of, and beside each one that it should be told of."""

import pytest

from pitstop.core.rule import load_rules
from pitstop.scan import rules
from pitstop.scan.facts import FileFacts, read_facts
from pitstop.scan.project import Project
from pitstop.scan.source import Source

BY_CODE = {rule.code: rule for rule in load_rules(rules)}

TRAIN = """
for i, batch in enumerate(train_loader):
    loss = model(batch).mean()
    loss.backward()
    optimizer.step()
    {line}
"""
DETECT = """
class Detect(torch.nn.Module):
    def forward(self, x):
        {line}
        return x + self.grid

    @staticmethod
    def make_grid(nx, ny):
        return torch.stack(torch.meshgrid([torch.arange(ny), torch.arange(nx)]), 2).float()
"""
LABELS = """
class Labels(torch.utils.data.Dataset):
    def __getitem__(self, index):
        if not self.path.exists():
            return np.zeros({size})
        return np.load(self.path)
"""
WRAPPED = "model = torch.nn.parallel.DistributedDataParallel(model)\n"
ACCUMULATED = """
for i, batch in enumerate(train_loader):
    if args.accumulation_steps > 1:
        {accumulated}
        if (i + 1) % args.accumulation_steps == 0:
            optimizer.step()
    else:
        {plain}
        optimizer.step()
"""
ARMS = """
if args.adam:
    optimizer = torch.optim.Adam(model.parameters())
else:
    optimizer = torch.optim.SGD(model.parameters())
"""
TRIAL = """
def test(model, loader):
    model.eval()
    model(torch.zeros(1, 3, 64, 64))
    {around}
        for batch in loader:
            model(batch)
"""
PATCHES = """
for b in range(n):
    for i, pi in enumerate(p):
        picked = pi[b, :, gj, gi]
        out = self.sigmoid_model.forward(picked[..., 2:n])
"""
JUDGE = """
with torch.no_grad():
    for i in range(len(pairs)):
        x, truth = pairs[i]
        {line}
        error = torch.sum((flow - truth) ** 2, dim=0).sqrt()
        error = error.view(-1)
        errors.append(error.mean().item())
"""
WINDOW = """
class Ssim(torch.nn.Module):
    def forward(self, x):
        if x.shape[1] == self.window.shape[1]:
            window = self.window
        else:
            window = make_window(11, 1.5)
            {line}
        return window

def make_window(size, sigma):
    return torch.Tensor([exp(-(x - size // 2) ** 2 / sigma) for x in range(size)])
"""
BOTH_WAYS = """
def attend(q, k, v, w):
    scores = torch.bmm(q, k.transpose(1, 2))
    back = torch.bmm({line}, w)
    return torch.bmm(scores.softmax(-1), v) + back
"""
SHAPES = [
    ("PIT201", TRAIN, "if i % 100 == 0 or i == len(train_loader) - 1: log(loss.item())", 0),
    ("PIT201", TRAIN, "if i % 100 == 0 or i + 1 == len(train_loader): log(loss.item())", 0),
    ("PIT201", TRAIN, "if i >= len(train_loader) - 1: log(loss.item())", 0),
    ("PIT201", TRAIN, "if (i < 9 and i % 3 == 2) or (i < 99 and i % 50 == 4): log(loss.item())", 0),
    ("PIT201", TRAIN, "if i % 100 == 0 or args.chatty: log(loss.item())", 1),
    ("PIT201", "{line}", "timesteps = [t.item() for b in timestep_batches for t in b]", 0),
    ("PIT201", TRAIN, "if self.first: stop(loss.item()); self.first = False", 0),
    ("PIT201", TRAIN, "if self.first: stop(loss.item()); self.first = True", 1),
    ("PIT201", TRAIN, "if loss.isnan().any() | loss.isinf().any(): print(loss.sum().item())", 0),
    ("PIT201", TRAIN, "if loss.isnan().any() | ready: print(loss.sum().item())", 1),
    ("PIT205", WINDOW, "self.window = window", 0),
    ("PIT205", WINDOW, "window = window.to(x.device)", 1),
    ("PIT604", BOTH_WAYS, "k.softmax(1)", 1),
    ("PIT604", BOTH_WAYS, "(scores.transpose(1, 2) - 9).clamp(max=5).softmax(1)", 0),
    ("PIT201", TRAIN, "mask = loss.detach(); mask = 0 if mask == 'auto' else mask", 0),
    ("PIT201", TRAIN, "best = torch.argmin((torch.linspace(0, 1, 9)[1:] - 0.5).abs()).item()", 0),
    ("PIT201", TRAIN, "best = torch.argmin((loss - 0.5).abs()).item()", 1),
    ("PIT201", TRAIN, "far = torch.rand(3).to(device).max().item()", 1),
    ("PIT201", JUDGE, "flow = model(x)[0].cpu()", 0),
    ("PIT201", JUDGE, "flow = model(x)[0]", 1),
    ("PIT201", TRAIN, "counts = [each.item() for each in batch['info']['counts']]", 0),
    ("PIT201", TRAIN, "counts = [each.item() for each in batch['scores']['counts']]", 1),
    ("PIT214", TRAIN, "batch = batch + torch.randn(*batch.shape).cuda()", 1),
    ("PIT214", TRAIN, "batch = batch + torch.randn(9, **options).cuda()", 0),
    (
        "PIT205",
        DETECT,
        "if self.grid.shape[2:4] != x.shape[2:4]: self.grid = self.make_grid(20, 20)",
        0,
    ),
    ("PIT205", DETECT, "if self.grid.shape != x.shape: other = self.make_grid(20, 20)", 1),
    ("PIT112", LABELS, "(0, 5)", 0),
    ("PIT112", LABELS, "(1, 5)", 1),
    ("PIT610", PATCHES, "", 0),
    ("PIT503", TRIAL, "with torch.no_grad():", 0),
    ("PIT503", TRIAL, "if True:", 1),
]


def found(code, text, project=None):
    source = Source(f"import torch\nimport numpy as np\n{text}", "train.py")
    return BY_CODE[code](source.in_project(project) if project else source)


@pytest.mark.parametrize(("code", "frame", "line", "count"), SHAPES)
def test_a_false_shape_is_quiet_and_the_true_one_beside_it_is_not(code, frame, line, count):
    fields = ("line", "size", "around")
    assert len(found(code, frame.format(**dict.fromkeys(fields, line)))) == count


def test_what_a_dataset_goes_through_is_on_the_cpu():
    text = "def label(boxes: torch.Tensor):\n    for box in boxes:\n        known(box[4].item())\n"
    for path, count in (("datasets/coco.py", 0), ("data.py", 0), ("models/head.py", 1)):
        assert len(BY_CODE["PIT201"](Source(f"import torch\n{text}", path))) == count


def test_one_arm_of_an_if_speaks_for_both():
    assert len(found("PIT606", ARMS)) == 1
    assert (
        len(found("PIT606", ARMS.replace("if args.adam:", "if 1:\n    pass\nif args.adam:"))) == 1
    )
    twice = "a = torch.optim.Adam(m.parameters())\nb = torch.optim.Adam(n.parameters())\n"
    assert len(found("PIT606", twice)) == 2


def test_the_arm_that_does_not_accumulate_has_nothing_to_hold_back():
    text = WRAPPED + ACCUMULATED.format(accumulated="loss.backward()", plain="loss.backward()")
    (finding,) = found("PIT804", text)
    assert "accumulation_steps > 1" in text.splitlines()[finding.span.line - 4]


@pytest.mark.parametrize(
    ("code", "text", "too_old", "new_enough"),
    [
        ("PIT606", "o = torch.optim.Adam(m.parameters())\n", (1, 12), (1, 13)),
        ("PIT606", "o = torch.optim.SGD(m.parameters())\n", (2, 2), (2, 3)),
        ("PIT405", "y = torch.utils.checkpoint.checkpoint(f, x)\n", (1, 10), (1, 11)),
        ("PIT604", "def a(q, k, v):\n    return (q @ k.mT).softmax(-1) @ v\n", (1, 13), (2, 0)),
    ],
)
def test_what_the_projects_torch_does_not_have_is_not_advised(code, text, too_old, new_enough):
    own = read_facts(Source(f"import torch\n{text}", "train.py"))
    counts = []
    for version in (too_old, new_enough, None):
        project = Project.of([own, FileFacts("", "", newest_torch=version)])
        counts.append(len(found(code, text, project)))
    assert counts == [0, 1, 1]


def test_a_class_with_a_to_of_its_own_may_know_no_non_blocking():
    text = "for samples in train_loader:\n    samples = samples.to(device)\n"
    (finding,) = found("PIT203", text)
    assert finding.fix is not None
    own = "class NestedTensor:\n    def to(self, device):\n        return self\n"
    (finding,) = found("PIT203", own + text)
    assert finding.fix is None


def test_a_second_read_waits_for_nothing_unless_there_was_work_between():
    text = TRAIN.format(line="log(loss.item())\n    meter.update({between}loss.item())")
    again = found("PIT201", text.format(between=""))
    assert [each.severity for each in again] == ["warning", "note"]
    work = text.replace("meter.update(", "fake = net_g(batch)\n    meter.update(").format(
        between=""
    )
    assert [each.severity for each in found("PIT201", work)] == ["warning", "warning"]


@pytest.mark.parametrize(("name", "count"), [("validate", 0), ("nondist_validation", 0), ("go", 1)])
def test_a_loop_in_a_function_that_validates_is_no_training(name, count):
    text = f"def {name}(m, loader):\n    for x in loader:\n        total += m(x).mean().item()\n"
    assert len(found("PIT201", text)) == count


def test_a_method_is_that_of_the_class_that_its_owner_is_named_after():
    text = (
        "class TrainMeter:\n    def update_stats(self, loss):\n        pass\n"
        "class TestMeter:\n    def update_stats(self, loss):\n        kept(loss.mean().item())\n"
    ) + TRAIN
    assert found("PIT201", text.format(line="train_meter.update_stats(loss)")) == []
    assert len(found("PIT201", text.format(line="meter.update_stats(loss)"))) == 1
    assert len(found("PIT201", text.format(line="self.test_meter.update_stats(loss)"))) == 1


@pytest.mark.parametrize(("name", "count"), [("plot_weights", 0), ("blend", 1)])
def test_what_is_drawn_is_not_drawn_in_every_step(name, count):
    text = f"def {name}(x: torch.Tensor):\n    return [blur(row) for row in x]\n"
    assert len(found("PIT208", text + TRAIN.format(line=f"{name}(batch)"))) == count


def test_checkpoints_where_nothing_is_trained_are_a_note():
    text = "x = torch.utils.checkpoint.checkpoint(block, x)\n"
    assert [each.severity for each in found("PIT405", text)] == ["note"]
    assert [each.severity for each in found("PIT405", text + "x.backward()")] == ["warning"]


def test_results_are_fetched_behind_the_network():
    text = (
        "class {}(torch.nn.Module):\n    def forward(self, x):\n        return x.sigmoid().cpu()\n"
    )
    assert found("PIT201", text.format("PostProcess")) == []
    assert found("PIT201", text.format("FidScore")) == []
    assert len(found("PIT201", text.format("Head"))) == 1


def test_a_tensor_that_is_built_once_is_a_note():
    once = "mask = torch.zeros(8).to(device)\n"
    assert [each.severity for each in found("PIT202", once)] == ["note"]
    for loader, severity in (("train_loader", "warning"), ("val_loader", "note")):
        every = f"for batch in {loader}:\n    {once}"
        assert [each.severity for each in found("PIT202", every)] == [severity]
    alone = f"class Loss(torch.nn.Module):\n    def forward(self, x):\n        {once}"
    assert [each.severity for each in found("PIT202", alone)] == ["note"]
    helped = f"{alone}        helper()\ndef helper():\n    {once}"
    assert [each.severity for each in found("PIT202", helped)] == ["note", "warning"]
