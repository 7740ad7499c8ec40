import pytest

from pitstop.scan.rules.full_frame_decoded_then_cropped import full_frame_decoded_then_cropped
from pitstop.scan.source import Source

HEAD = """\
import cv2, torch
from PIL import Image
class Frames(torch.utils.data.Dataset):
    def __getitem__(self, index):
        x = cv2.imread(self.paths[index])
"""


@pytest.mark.parametrize(
    "body",
    [
        "return x",
        "x = cv2.resize(x, size)\n        return random_crop(x, self.size)",  # needs the whole
        "return center_crop(self.transform(x), self.size)",  # it may resize
        "return random_crop(self.cache[index], self.size)",  # something else
        "return x[:, top : top + size]",  # one axis
        "return x[a:b, c:d]",
        "return Image.fromarray(x).crop((0, 0, 256, 256))",  # parts put side by side
        "return crop_to(x, size)\ndef crop_to(x, size):\n    return x.resize(2 * size)[:size]",
    ],
)
def test_leaves_alone(body):
    assert full_frame_decoded_then_cropped(Source(f"{HEAD}        {body}\n")) == []


@pytest.mark.parametrize(
    "body",
    [
        "return random_crop(x, self.size)",
        "return x[top : top + size, left : left + size]",
        "both = [x, x]\n        return self.crop(both)",
        "frames = []\n        frames.append(x)\n        frames = paired_random_crop(frames, size)",
        "if self.train:\n            x = x[t : t + n, l : l + n, :]\n        return x",
    ],
)
def test_finds(body):
    (finding,) = full_frame_decoded_then_cropped(Source(f"{HEAD}        {body}\n"))
    assert (finding.severity, finding.confidence) == ("note", "suspected")
