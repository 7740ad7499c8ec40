import os
import re
import subprocess
from pathlib import Path

import pytest

from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Evidence, Line
from pitstop.tune.patch.patch import make_patch, write_patch
from pitstop.tune.patch.sites import Sites
from tune.sourced import NET, TRAIN, added, evidence_of, patched, wanted, write


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path, train=TRAIN, net=NET)


@pytest.mark.parametrize(
    "data",
    [
        "import torch\r\n# é\r\nmodel = Net()\r\nloss = model(x)\r\nloss.backward()\r\n".encode(),
        b"# coding: latin-1\nimport torch\n# \xe9\nmodel = Net()\nloss = model(x)\nloss.backward()",
        b"\xef\xbb\xbfimport torch\nmodel = Net()\nloss = model(x)\nloss.backward()",
    ],
    ids=["CRLF", "latin-1 without a last newline", "byte-order mark"],
)
def test_line_ends_and_encoding_stay(tmp_path, data):
    folder = write(tmp_path, train=data)
    patched(folder, "bf16", ("compile", {}))
    end = b"\r\n" if b"\r\n" in data else b"\n"
    cast = b'with torch.autocast("cuda", dtype=torch.bfloat16):' + end + b"    loss = model(x)"
    expected = data.replace(b"loss = model(x)", cast)
    expected = expected.replace(b"Net()", b"Net()" + end + b"model.compile()")
    assert (folder / "train.py").read_bytes() == expected


def test_files_elsewhere_and_installed_ones_are_left_alone(tmp_path):
    text = "import torch\nmodel = Net()\nloss = model(x)\nloss.backward()\n"
    write(tmp_path / "lib" / "site-packages", there=text)
    here = write(tmp_path / "here", train="import torch\nimport there\n")
    inside = make_patch(wanted("bf16"), evidence_of(tmp_path), ["train.py"], tmp_path)
    outside = make_patch(wanted("bf16"), evidence_of(tmp_path), ["train.py"], here)
    assert not inside.text
    assert not outside.text
    assert "does not show" in outside.unplaced[0][1]


@pytest.mark.parametrize(
    ("repository", "script", "here", "root"),
    [
        ("", "train.py", "elsewhere", "project"),
        ("project", "scripts/train.py", "elsewhere", "project"),
        ("project", "scripts/train.py", "project/scripts", "project"),
        (".", "train.py", "project", "project"),  # all there is lies here
        ("", "train.py", ".", "."),
    ],
)
def test_a_run_from_any_folder_has_a_patch_of_its_project(tmp_path, repository, script, here, root):
    if repository:
        (tmp_path / repository / ".git").mkdir(parents=True)
    project, here, root = tmp_path / "project", tmp_path / here, tmp_path / root
    write(project, net=NET, train=TRAIN)
    if script != "train.py":
        (project / script).parent.mkdir()
        (project / "train.py").rename(project / script)
        write(project, net=NET + "\n\ndef grown():\n    return torch.optim.Adam(of())\n")
    here.mkdir(exist_ok=True)
    words = [os.path.relpath(project / script, here)]
    evidence = evidence_of(project, base=here)
    patch = make_patch(wanted("cudnn-benchmark", "fused-optimizer"), evidence, words, here)
    assert patch.root == root
    assert patch.placed == ("cudnn-benchmark", "fused-optimizer")
    subprocess.run(["git", "apply"], input=patch.text, text=True, cwd=root, check=True)
    text = (project / script).read_text()
    assert "cudnn.benchmark = True" in text
    assert "fused=True" in text
    grown = (project / "net.py").read_text()
    assert ("Adam(of(), fused=True)" in grown) == ("Adam" in grown)


def test_a_worktree_is_a_repository(tmp_path):
    project = write(tmp_path / "project" / "scripts", train=TRAIN, net=NET).parent
    (project / ".git").write_text("gitdir: elsewhere")
    words = [str(project / "scripts" / "train.py")]
    patch = make_patch(wanted("cudnn-benchmark"), evidence_of(project), words, tmp_path)
    assert patch.root == tmp_path  # which holds all of it
    assert make_patch((), evidence_of(project), words, tmp_path / "here").root == project


@pytest.mark.parametrize("folder", [".", "here"])
def test_what_is_imported_from_the_repository_or_from_here_is_edited(tmp_path, folder):
    (tmp_path / ".git").mkdir()
    (tmp_path / "here").mkdir()
    write(tmp_path / "scripts", train="import settings\nimport torch\n")
    write(tmp_path / folder, settings="import torch\ntorch.backends.cudnn.benchmark = False\n")
    words = ["../scripts/train.py"]
    patch = make_patch(wanted("cudnn-benchmark"), Evidence(), words, tmp_path / "here")
    assert patch.root == tmp_path
    assert added(patch) == ["torch.backends.cudnn.benchmark = True"]
    assert "settings.py" in patch.text


def test_a_recorded_file_that_nothing_imports_is_found_from_here(tmp_path):
    (tmp_path / ".git").mkdir()
    write(tmp_path, train="import torch\noptimizer = torch.optim.AdamW(p)\n")
    here = write(tmp_path / "here", loaded="import torch\nx = torch.optim.Adam(p)\n")
    evidence = evidence_of(tmp_path, base=here)
    patch = make_patch(wanted("fused-optimizer"), evidence, ["../train.py"], here)
    assert sorted(added(patch)) == [
        "optimizer = torch.optim.AdamW(p, fused=True)",
        "x = torch.optim.Adam(p, fused=True)",
    ]


def test_files_here_stay_in_reach_of_a_tool_elsewhere_that_runs_them(tmp_path):
    write(tmp_path / "tools", launch="import runpy\nrunpy.run_path('mine.py')\n")
    here = write(tmp_path / "here", mine="import torch\nx = torch.optim.Adam(p)\n")
    patch = make_patch(
        wanted("fused-optimizer"), evidence_of(here, base=here), ["../tools/launch.py"], here
    )
    assert patch.root == here
    assert added(patch) == ["x = torch.optim.Adam(p, fused=True)"]


@pytest.mark.parametrize("launcher", ["torch.distributed.run", "cProfile", "no_such_module"])
def test_a_launcher_is_not_the_script(folder, launcher):
    words = ["python", "-m", launcher, "train.py"]
    patch = make_patch(wanted("cudnn-benchmark"), evidence_of(folder), words, folder)
    assert patch.root == folder
    assert "train.py" in patch.text


def test_without_any_script_a_patch_is_for_this_folder(tmp_path):
    assert make_patch((), Evidence(), [], tmp_path).root == tmp_path
    installed = [str(Path(pytest.__file__).with_name("__main__.py"))]
    assert make_patch((), Evidence(), installed, tmp_path).root == tmp_path
    sites = Sites({}, Evidence(), tmp_path, tmp_path)
    assert sites.show(Line("", 3)) == "a library:3"


def test_never_writes_over_a_file_unless_told_to(folder):
    target = folder / "tuned.patch"
    target.write_text("mine")
    evidence = evidence_of(folder)
    with pytest.raises(PitstopError, match="--force"):
        write_patch(wanted("tf32"), evidence, ["train.py"], folder, target)
    assert target.read_text() == "mine"
    patch = write_patch(wanted("tf32", "allocator"), evidence, ["train.py"], folder, target, True)
    assert target.read_text() == patch.text
    assert re.search(r"^# Not in it: allocator: .*ALLOC_CONF", patch.text, re.MULTILINE)


WORKLOADS = Path(__file__).parents[2] / "src" / "pitstop" / "workloads"
CALLS = {
    "frame_interpolation": (r" = self\(x, prev|= self\.loss\(", "VQFlowNet"),
    "pose_regression": (r"self\.model\(both|self\.model\(new", "PoseNetwork"),
    "spike_deblur": (r"self\.loss\(self\.model\(", "SpikeVRT"),
    "tiled_vae": (r"= vae\(clip\)", "VideoVae"),
    "lora_diffusion": (r"= self\.transformer\($", "FluxTransformer2DModel"),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_patch_of_a_workload_applies_and_says_nothing_twice(tmp_path, name):
    for path in (WORKLOADS / name).glob("*.py"):
        write(tmp_path, **{path.stem if path.stem != "slow" else "train": path.read_bytes()})
    model, kind = CALLS[name]
    kept = ("bf16", ("loader", {"workers": 2}), "fused-optimizer", ("compile", {}),
            "no-empty-cache", "checkpointing-off", "cudnn-benchmark")  # fmt: skip
    patch = patched(tmp_path, *kept, model=re.compile(model), kind=kind)
    assert {"loader workers=2", "fused-optimizer", "cudnn-benchmark"} <= set(patch.placed) | {
        each for each, why in patch.unplaced if "already" in why
    }
    assert patched(tmp_path, *kept, model=re.compile(model), kind=kind).text == ""
