import pytest

from pitstop.scan.rules.module_called_repeatedly import module_called_repeatedly
from pitstop.scan.source import Source

LOOP = """\
import torch
found = []
for i in range(n):
    {line}
"""


def found_in(line):
    return module_called_repeatedly(Source(LOOP.format(line=line)))


@pytest.mark.parametrize(
    "line",
    [
        "found.append(model.inference(first, second, (i + 1) * 1.0 / (n + 1), scale))",
        "found.append(self.net(first, moment=i / n))",
        "found.append(model(first, i))",
    ],
)
def test_finds(line):
    (finding,) = found_in(line)
    assert (finding.code, finding.span.line) == ("PIT601", 4)


@pytest.mark.parametrize(
    "line",
    [
        "found.append(model(first))",  # another sample each time, perhaps
        "found.append(model(first[i]))",  # of other sizes, perhaps
        "first = model(first, i); found.append(first)",  # needs the round before
        "found.append(model(first, i)); first = found[-1]",
        "found.append(model(cv2.imread(paths[i])))",
        "found.append(model(i))",
        "found.append(score(first, i))",  # no network
        "if i % 100 == 0: found.append(model(first, i))",
        "loss = model(first, i); loss.backward(); found.append(model(first, i))",
    ],
)
def test_leaves_alone(line):
    assert found_in(line) == []
