"""All claims that a GPU says something about, in one process.

    OUT=/tmp/out python benchmarks/claims/on_gpu.py

Writes $OUT/NAME.cuda.json, one file for each report, to be kept in benchmarks/claims/results. The
systems have their full size there, in shapes that repeat. LoRA training needs no GPU for its claims.
"""

import os
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent.parent / "src"))

import run

from pitstop.workloads.paced import without_tensorboard

if __name__ == "__main__":
    without_tensorboard()
    run.REPORTS = tuple(each for each in run.REPORTS if each != "lora_diffusion")
    torch.backends.cudnn.benchmark = False
    folder = Path(os.environ.get("OUT", "."))
    folder.mkdir(parents=True, exist_ok=True)
    sys.exit(int(run.measure(sys.argv[1:], "cuda", folder) > 0))
