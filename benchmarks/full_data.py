"""Generate the full-size files of one of the five systems, before anything is timed.

python benchmarks/full_data.py frame_interpolation
"""

import argparse
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

PREPARE: dict[str, Callable[[Any, str], Path]] = {
    "frame_interpolation": lambda data, _: data.build_triplets(data.FULL, None),
    "lora_diffusion": lambda data, _: data.prepare(small=False),
    "pose_regression": lambda data, device: data.prepare(data.FULL, None, device),
    "spike_deblur": lambda data, _: data.prepare(False, None),
    "tiled_vae": lambda data, _: data.clips_folder(False, None),
}


def main() -> None:
    """Generate, unless it is there, and print the folder and the seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(PREPARE))
    parser.add_argument("--device", default="cuda", help="that views of Gaussians are rendered on")
    arguments = parser.parse_args()
    data = import_module(f"pitstop.workloads.{arguments.name}.data")
    begun = time.monotonic()
    folder = PREPARE[arguments.name](data, arguments.device)
    print(f"{folder}: {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
