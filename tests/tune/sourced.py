"""Source of a user's on disk, what a recording would say of it, and its patch."""

import ast
import re
import subprocess

from pitstop.core.evidence import (
    Evidence,
    Line,
    Loader,
    ModuleCall,
    Operation,
    Optimizer,
    Settings,
)
from pitstop.tune.patch.patch import make_patch
from pitstop.tune.plan import Wanted

TRAIN = """\
# trains a network
import argparse

import torch
from torch.utils.data import DataLoader

from net import Net


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    loader = DataLoader(data, batch_size=4, num_workers=args.workers)  # the loader
    model = Net().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = criterion(out, y)  # of this batch
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
"""
NET = "from torch import nn\n\n\nclass Net(nn.Module):\n    pass\n"
MODEL = re.compile(r"\b(?:self\.)?(?:model|net|vae|transformer)\(")


def numbered(text, pattern):
    """The lines of a text that match, from 1."""
    return [number for number, line in enumerate(text.splitlines(), 1) if re.search(pattern, line)]


def evidence_of(folder, device="cuda", model=MODEL, kind="Net", learns=True, length=64, base=None):
    """What a recording in ``base`` would say of the files of a folder."""
    texts = {path: path.read_bytes().decode("latin-1") for path in sorted(folder.rglob("*.py"))}

    def named(path):
        below = base is not None and path.is_relative_to(base)
        return str(path.relative_to(base) if below else path)

    def lines(pattern):
        return [
            Line(named(path), number, "f")
            for path, text in texts.items()
            for number in numbered(text, pattern)
        ]

    calls = [
        ModuleCall(
            kind,
            kind,
            each,
            -1,
            f"float32[4,3,8,8]@{device}",
            parameters=9,
            graph=learns,
            training=learns,
        )
        for each in lines(model)
    ]
    inner = [
        ModuleCall(f"blocks.{number}", "Block", Line("", 0), 0, "", parameters=3)
        for number in range(2)
        if calls
    ]
    weights = f"float32[4,3,8,8]@{device} float32[8,3,3,3]@{device}"
    operations = [
        Operation("aten.convolution.default", each.where, weights, 1, 1.0, call=position)
        for position, each in enumerate(calls)
    ]
    operations += [
        Operation("aten.native_group_norm.default", each.where, weights, 1, 1.0, call=at)
        for at, each in enumerate(calls)
    ]
    operations += [
        Operation("aten._to_copy.default", each, "float32[4,3,8,8]@cpu", 1, 1.0, waits=True)
        for each in lines(r"\.to\(device\)")
    ]
    return Evidence(
        settings=Settings(device=device, tf32_cudnn=True),
        loaders=tuple(
            Loader("Data", 0, made=each, length=length, batch_size=4)
            for each in lines(r"= (?:utils\.)?DataLoader\(")
        ),
        optimizers=tuple(
            Optimizer(name, made=each)
            for name in ("Adam", "AdamW")
            for each in lines(rf"\b{name}\(")
        ),
        calls=(*calls, *inner),
        operations=tuple(operations),
    )


def write(folder, **texts):
    for name, text in texts.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def wanted(*changes):
    return tuple(Wanted(each) if isinstance(each, str) else Wanted(*each) for each in changes)


def patched(folder, *changes, tool=("git", "apply"), **options):
    """Make the patch, apply it with git, and return it."""
    patch = make_patch(wanted(*changes), evidence_of(folder, **options), ["train.py"], folder)
    if patch.text:
        data = patch.text.encode("utf-8", "surrogateescape")
        subprocess.run(tool, input=data, cwd=folder, check=True, capture_output=True)
        for path in folder.rglob("*.py"):
            ast.parse(path.read_bytes())
    return patch


def added(patch):
    return [line[1:] for line in patch.text.splitlines() if re.match(r"\+(?!\+\+)", line)]


def dropped(patch):
    return [line[1:].strip() for line in patch.text.splitlines() if re.match(r"-(?!--)", line)]
