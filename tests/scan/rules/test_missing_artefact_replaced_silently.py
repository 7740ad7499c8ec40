import pytest

from pitstop.scan.rules.missing_artefact_replaced_silently import missing_artefact_replaced_silently
from pitstop.scan.source import Source

HEAD = """\
import os, numpy as np, torch
class Clips(torch.utils.data.Dataset):
    def read(self, path):
"""


@pytest.mark.parametrize(
    "body",
    [
        "if not path.exists():\n            raise FileNotFoundError(path)",
        "if not path.exists():\n            return None",
        "if not path.exists():\n            path = self.fallback",
        "if not self.use_voxels:\n            return torch.zeros(8)",  # an option, not a file
        "if os.path.exists(path):\n            return torch.zeros(8)",
        "if not path.exists():\n            return np.ones(8)",  # all of a mask is a default
        "try:\n            return torch.load(path)\n        except ValueError:\n"
        "            return torch.zeros(8)",
        "return torch.zeros(8)",
    ],
)
def test_leaves_alone(body):
    assert missing_artefact_replaced_silently(Source(f"{HEAD}        {body}\n")) == []


@pytest.mark.parametrize(
    "body",
    [
        "if not path.exists():\n            return torch.zeros(8)",
        "if not os.path.isfile(path):\n            x = np.zeros(8)",
        "if path.exists():\n            x = torch.load(path)\n        else:\n"
        "            x = np.zeros(8)",
        "try:\n            return torch.load(path)\n        except Exception as e:\n"
        "            print(e)\n            return torch.zeros(8)",
        "try:\n            return torch.load(path)\n        except (OSError, KeyError):\n"
        "            return torch.zeros(8)",
    ],
)
def test_finds(body):
    (finding,) = missing_artefact_replaced_silently(Source(f"{HEAD}        {body}\n"))
    assert finding.severity == "error"


def test_quiet_outside_datasets():
    text = "import torch\ndef read(p):\n    if not p.exists():\n        return torch.zeros(8)\n"
    assert missing_artefact_replaced_silently(Source(text)) == []
