import pytest

from pitstop.scan.facts import read_facts
from pitstop.scan.project import Project
from pitstop.scan.rules.constant_rebuilt_each_step import constant_rebuilt_each_step
from pitstop.scan.rules.sync_in_hot_loop import sync_in_hot_loop
from pitstop.scan.source import Source

VIDEO = """\
import torch
from ssim import ssim
torch.set_grad_enabled(False)
while True:
    frame = buffer.get()
    same = ssim(frame, last)
    if same > 0.99:
        continue
    middle = model.inference(frame, last)
    write(middle.cpu())
"""
SSIM = """\
import torch
from math import exp

def gaussian(size):
    return torch.Tensor([exp(-((x - 5) ** 2)) for x in range(size)])

def ssim(one, other, full=False):
    window = gaussian(11)
    mean = torch.mean(one * other)
    if full:
        return mean, window
    return mean
"""


def together(*files):
    sources = [Source(text, path) for path, text in files]
    project = Project.of([read_facts(each) for each in sources])
    return [each.in_project(project) for each in sources]


def test_a_branch_on_a_number_of_the_gpu_per_frame_is_found_across_files():
    video, ssim = together(("video.py", VIDEO), ("ssim.py", SSIM))
    (finding,) = sync_in_hot_loop(video)
    assert finding.span.line == 7  # and not the pixels, which must come to the CPU
    assert "loop that runs model at video.py:4" in finding.message
    (finding,) = constant_rebuilt_each_step(ssim)
    assert finding.span.line == 5
    assert "every frame" in finding.message


def test_without_the_other_file_nothing_is_known_of_the_number():
    assert sync_in_hot_loop(Source(VIDEO, "video.py")) == []


LOOPS = """\
import torch
{before}
for path in paths:
    {line}
"""


@pytest.mark.parametrize(
    ("before", "line", "hot"),
    [
        ("model.eval()", "score = model(load(path))", True),
        ("model.eval()", "score = self.model(load(path))", True),
        ("model.eval()", "score = depth_model.infer_image(load(path))", True),
        ("torch.set_grad_enabled(False)", "pipe(path)", True),
        ("", "score = model(load(path))", False),  # nothing says that it is no training
        ("model.eval()\nloss.backward()", "score = model(load(path))", False),
        ("model.eval()", "score = Model(path)", False),  # builds one
        ("model.eval()", "score = measure(path)", False),
        ("model.eval()", "path.model(x)", False),  # over networks
    ],
)
def test_loops_that_run_a_network_without_training_it(before, line, hot):
    source = Source(LOOPS.format(before=before, line=line))
    assert (len(source.inference_loops) == 1) is hot


def test_layers_of_a_network_are_no_frames():
    text = "model.eval()\ndef forward(self, x):\n    for part in x:\n        x = self.net(part)\n"
    assert Source(text).inference_loops == {}
