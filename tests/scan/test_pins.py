import pytest

from pitstop.scan.pins import is_pin_file, newest_torch
from pitstop.scan.run import Options, scan


@pytest.mark.parametrize(
    ("text", "newest"),
    [
        ("torch==1.7.1\ntorchvision==0.8.2\n", (1, 7)),
        ("torch ~= 2.1", (2, 1)),
        ("  - pytorch=1.12\n  - torchvision=0.13\n", (1, 12)),
        ("conda install pytorch==1.8.0 torchvision\npip install torch==1.10.2+cu113", (1, 10)),
        ("torch>=1.8,<2.1", (2, 0)),
        ("torch<2.0", (1, 99)),
        ("FROM pytorch/pytorch:1.13.1-cuda11.6", (1, 13)),
        ("torch>=1.7.0,!=1.12.0\n", None),  # the newest is allowed
        ("torch\n", None),
        ("torchvision==0.8.2\npytorch_lightning==1.0.8\n", None),
    ],
)
def test_the_newest_torch_that_a_text_allows(text, newest):
    assert newest_torch(text) == newest


def test_files_beside_the_source_that_name_versions():
    for name in ("requirements.txt", "requirements-dev.txt", "environment.yml", "README.md"):
        assert is_pin_file(f"some/{name}")
    assert not is_pin_file("train.py")


def test_a_scan_reads_the_pins_at_the_top_of_the_repository(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    path = tmp_path / "src" / "train.py"
    path.write_text("import torch\no = torch.optim.Adam(m.parameters())\n")
    options = Options(use_cache=False)
    assert len(scan([path], options).findings) == 1
    (tmp_path / "requirements.txt").write_text("torch==1.12\n")
    assert scan([path], options).findings == ()
    assert scan([tmp_path / "src"], options).findings == ()
