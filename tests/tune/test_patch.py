import re
import subprocess
from dataclasses import replace

import pytest

from pitstop.tune.patch.patch import make_patch
from tune.sourced import NET, TRAIN, added, dropped, evidence_of, patched, wanted, write

TRAINER = """\
import torch
from torch import nn, optim
from torch.utils.checkpoint import checkpoint


class Trainer:
\tdef __init__(self, config):
\t\tself.model = build(config)
\t\tself.optimizer = optim.Adam(self.model.parameters(), lr=config.lr)

\tdef loss(self, batch):
\t\treturn nn.functional.mse_loss(self.model(batch), batch)

\tdef step(self, batch):
\t\tself.optimizer.zero_grad()
\t\tloss = self.loss(batch)
\t\tloss.backward()
\t\tself.optimizer.step()


def build(config):
\treturn Net(config).cuda()


class Net(nn.Module):
\tdef forward(self, x):
\t\treturn x + checkpoint(self.block, x, use_reentrant=False)
"""


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path, train=TRAIN, net=NET)


@pytest.mark.parametrize(
    ("change", "after"),
    [
        (("loader", {"workers": 4}),
         ["    loader = DataLoader(data, batch_size=4, num_workers=4, pin_memory=True, "
          "persistent_workers=True)  # the loader"]),
        ("fused-optimizer",
         ["    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)"]),
        ("tf32", ["", 'torch.set_float32_matmul_precision("high")']),
        ("cudnn-benchmark", ["", "torch.backends.cudnn.benchmark = True"]),
        (("threads", {"threads": 2}), ["", "torch.set_num_threads(2)"]),
        ("bf16", ['        with torch.autocast("cuda", dtype=torch.bfloat16):',
                  "            out = model(x)",
                  "            loss = criterion(out, y)  # of this batch"]),
        ("fp16", ['    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10)',
                  '        with torch.autocast("cuda", dtype=torch.float16):',
                  "            out = model(x)",
                  "            loss = criterion(out, y)  # of this batch",
                  "        scaler.scale(loss).backward()",
                  "        scaler.unscale_(optimizer)",
                  "        scaler.step(optimizer)",
                  "        scaler.update()"]),
        ("channels-last",
         ["    model = model.to(memory_format=torch.channels_last)",
          "        out = model(x.to(memory_format=torch.channels_last))"]),
        (("compile", {"scope": "whole"}), ["    model.compile()"]),
        (("compile", {"scope": "whole", "mode": "reduce-overhead"}),
         ['    model.compile(mode="reduce-overhead")']),
        (("compile", {"scope": "blocks", "mode": "reduce-overhead"}),
         ["    model.register_forward_pre_hook(lambda *_: "
          "torch.compiler.cudagraph_mark_step_begin())",
          "    for layer in model.modules():",
          '        if type(layer).__name__ in {"Block"}:',
          '            layer.compile(mode="reduce-overhead")']),
        (("compile", {"scope": "blocks"}),
         ["    for layer in model.modules():",
          '        if type(layer).__name__ in {"Block"}:', "            layer.compile()"]),
        (("compile", {"scope": "blocks", "dynamic": False}),
         ["    for layer in model.modules():",
          '        if type(layer).__name__ in {"Block"}:',
          "            layer.compile(dynamic=False)"]),
        ("fused-group-norm",
         ["from pitstop.parts import fuse_group_norm", "    fuse_group_norm(model)"]),
        (("cuda-graphs", {"scope": "blocks"}),
         ["from pitstop.parts import graphed", "    graphed(model, blocks=True)"]),
        (("selective-checkpoints", {"blocks": True, "keep": 0.25}),
         ["from pitstop.parts import selective_checkpoints",
          "    selective_checkpoints(model, keep=0.25)"]),
        ("cuda-graphs", ["from pitstop.parts import graphed", "    graphed(model)"]),
        ("non-blocking",
         ["        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)"]),
        ("no-empty-cache", []),
        (("batch-size", {"factor": 2}),
         ["    loader = DataLoader(data, batch_size=8, num_workers=args.workers)  # the loader"]),
    ],
    ids=str,
)  # fmt: skip
def test_a_change_edits_its_lines_and_no_others(folder, change, after):
    patch = patched(folder, change)
    assert added(patch) == after
    assert patch.placed
    said = [why for _, why in patch.unplaced]
    captured = "reduce-overhead" in str(change)
    kept = "the model's next call writes over what it returned: clone what is kept"
    assert said == [kept] * captured
    gone = "torch.cuda.empty_cache()" if change == "no-empty-cache" else ""
    assert gone in dropped(patch) or not gone
    if change != ("batch-size", {"factor": 2}):  # which doubles what it finds
        assert patched(folder, change).text == ""


def test_all_changes_go_together_and_patch_applies_it_too(folder):
    kept = ["tf32", "bf16", "channels-last", ("loader", {"workers": 2}), "fused-optimizer",
            ("compile", {}), "fused-group-norm", "non-blocking", "no-empty-cache"]  # fmt: skip
    patch = patched(folder, *kept, tool=("patch", "-p1"))
    assert len(patch.placed) == len(kept)
    lines = (folder / "train.py").read_text()
    assert "            out = model(x.to(memory_format=torch.channels_last))\n" in lines
    order = ["model = Net()", "channels_last)", "model.compile()", "fuse_group_norm(model)"]
    assert [lines.index(each) for each in order] == sorted(lines.index(each) for each in order)
    again = patched(folder, *kept)
    assert again.text == ""
    assert again.placed == ()


def test_a_trainer_class_with_tabs_and_a_model_from_a_function(tmp_path):
    folder = write(tmp_path, train=TRAINER)
    patch = patched(folder, "bf16", ("compile", {}), "checkpointing-off", "fused-optimizer")
    assert not patch.unplaced
    assert added(patch) == [
        "\t\tself.model.compile()",
        "\t\tself.optimizer = optim.Adam(self.model.parameters(), lr=config.lr, fused=True)",
        '\t\twith torch.autocast("cuda", dtype=torch.bfloat16):',
        "\t\t\tloss = self.loss(batch)",
        "\t\treturn x + self.block(x)",
    ]


def test_a_scaler_of_an_object_stands_behind_its_optimizer(tmp_path):
    folder = write(tmp_path, train=TRAINER)
    assert added(patched(folder, "fp16"))[0] == (
        '\t\tself.scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10)'
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("DataLoader(data, 4, True, None, None, 0)",
         "DataLoader(data, 4, True, None, None, 2, persistent_workers=True)"),
        ("DataLoader(data, **options)",
         'DataLoader(data, **{**options, "num_workers": 2, "persistent_workers": True})'),
        ("DataLoader(\n    data,\n    batch_size=4,  # few\n)",
         "DataLoader(\n    data,\n    batch_size=4,  # few\n    num_workers=2,\n"
         "    persistent_workers=True,\n)"),
        ("DataLoader(\n    data, batch_size=4\n)",
         "DataLoader(\n    data, batch_size=4, num_workers=2, persistent_workers=True\n)"),
        ("DataLoader(data, num_workers=2, persistent_workers=True)", None),
    ],
)  # fmt: skip
def test_arguments_of_a_loader_however_they_are_written(tmp_path, before, after):
    start = "from torch.utils.data import DataLoader\nloader = "
    folder = write(tmp_path, train=f"{start}{before}\n")
    patched(folder, ("loader", {"workers": 2}), device="cpu")
    assert (folder / "train.py").read_text() == f"{start}{after or before}\n"


@pytest.mark.parametrize(
    ("change", "text", "reason"),
    [
        ("fused-optimizer", "make(torch.optim, 'AdamW')(p)  # AdamW(", "roundabout"),
        ("bf16", "def f(x):\n    return model(x)", "no backward pass follows"),
        ("bf16", "for x in data: out = model(x); out.sum().backward()", "share their line"),
        ("fp16", "y = model(x)\ny.backward()\na_opt.step()\nb_opt.step()", "not one optimizer"),
        (("compile", {}), "def f(model, x):\n    model(x)", "built where the source does not show"),
        ("allocator", "", "ALLOC_CONF"),
        ("checkpointing-on", "", "by hand|checkpoint(block"),
        ("a-plugin", "", "pitstop run --with"),
        ("no-empty-cache", "x = 0", "has it already"),
    ],
)  # fmt: skip
def test_what_has_no_place_says_why_and_what_to_write(tmp_path, change, text, reason):
    folder = write(tmp_path, train=f"import torch\n{text}\n")
    patch = patched(folder, change)
    assert not patch.text
    assert not patch.placed
    ((name, why),) = patch.unplaced
    assert any(each in why for each in reason.split("|"))
    assert name.startswith(change if isinstance(change, str) else change[0])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("criterion(model(x), y).backward()",
         'with torch.autocast("cuda", dtype=torch.bfloat16):\n    loss = criterion(model(x), y)\n'
         "loss.backward()"),
        ('with torch.autocast("cuda", torch.float16, enabled=amp):\n    loss = model(x)\n'
         "scaler.scale(loss).backward()",
         'with torch.autocast("cuda", torch.bfloat16, enabled=True):\n    loss = model(x)\n'
         "scaler.scale(loss).backward()"),
        ('loss = model(x)\nprint("""a\nb""")\nloss += 1\nloss.backward()',
         'with torch.autocast("cuda", dtype=torch.bfloat16):\n    loss = model(x)\n'
         '    print("""a\nb""")\n    loss += 1\nloss.backward()'),
    ],
)  # fmt: skip
def test_autocast_is_written_as_people_do(tmp_path, before, after):
    folder = write(tmp_path, train=f"import torch\n{before}\n")
    patched(folder, "bf16")
    assert (folder / "train.py").read_text() == f"import torch\n{after}\n"
    assert patched(folder, "bf16").text == ""


def test_two_backward_passes_get_an_autocast_each(tmp_path):
    text = "import torch\nd = net(x)\nd.backward()\nopt.step()\ng = net(x) + 1\ng.backward()\n"
    patch = patched(write(tmp_path, train=text), "bf16")
    assert [line.strip() for line in added(patch)][1::2] == ["d = net(x)", "g = net(x) + 1"]


def test_inference_is_cast_back_since_the_script_goes_on_with_it(tmp_path):
    text = "import torch\nfor x in data:\n    out = model(x)\n    save(out.clamp(0, 1))\n"
    patch = patched(write(tmp_path, train=text), "bf16", learns=False)
    assert added(patch)[1:] == ["        out = model(x)", "    out = out.float()"]


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("def main():\n    for x in data:\n        show(x)\n\n\ndef show(x):\n    model(x)\n",
         "@torch.inference_mode()\ndef main():\n"),
        ("for x in data:\n    print(model(x))\n",
         "with torch.inference_mode():\n    for x in data:\n        print(model(x))\n"),
    ],
)  # fmt: skip
def test_inference_mode_is_around_the_loop(tmp_path, text, after):
    folder = write(tmp_path, train=f"import torch\n\n\n{text}")
    patched(folder, "inference-mode", learns=False)
    assert after in (folder / "train.py").read_text()
    assert patched(folder, "inference-mode", learns=False).text == ""


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        ("tf32", 'torch.set_float32_matmul_precision("highest")',
         'torch.set_float32_matmul_precision("high")'),
        ("tf32", "torch.backends.cuda.matmul.allow_tf32 = False",
         "torch.backends.cuda.matmul.allow_tf32 = True"),
        ("tf32", 'torch.backends.cuda.matmul.fp32_precision = "ieee"',
         'torch.backends.cuda.matmul.fp32_precision = "tf32"'),
        ("cudnn-benchmark", "torch.backends.cudnn.benchmark = options.benchmark",
         "torch.backends.cudnn.benchmark = True"),
        ("cudnn-benchmark", "if fixed:\n    torch.backends.cudnn.benchmark = False",
         "\ntorch.backends.cudnn.benchmark = True\nif fixed:\n"
         "    torch.backends.cudnn.benchmark = False"),
    ],
)  # fmt: skip
def test_a_setting_is_changed_where_the_source_sets_it(tmp_path, change, before, after):
    folder = write(tmp_path, train=f"import torch\n{before}\n")
    patched(folder, change)
    assert (folder / "train.py").read_text() == f"import torch\n{after}\n"


METHOD = """\
import torch
from library import Pipeline, Vae

{built}
for latent in latents:
    picture = {call}(latent)
"""


OWN_FORWARD = "class Net(nn.Module):\n    def forward(self, x):\n        return x\n"
NO_FORWARD = "class Net(Base):\n    pass\n\n\nclass Base(nn.Sequential):\n    pass\n"


@pytest.mark.parametrize(
    "copies", ["ema = copy.deepcopy(model)\n", "torch.save(model, 'model.pt')\n"]
)
@pytest.mark.parametrize(
    ("kind", "net", "passed_over"),
    [
        ("Sequential", "", True),
        ("Net", OWN_FORWARD, False),
        ("Net", NO_FORWARD, True),
        ("Net", "class Net(other.Net):\n    pass\n", False),
    ],
)
def test_what_compile_passes_over_is_compiled_by_its_forward(
    tmp_path, kind, net, passed_over, copies
):
    train = TRAIN.replace("Net()", f"{kind}()") + "torch.save(model.state_dict(), 'weights.pt')\n"
    change = wanted(("compile", {"dynamic": False}))
    write(tmp_path, train=train, net=f"from torch import nn\n\n\n{net}")
    found = evidence_of(tmp_path, kind=kind)
    patch = make_patch(change, found, ["train.py", "net.py"], tmp_path)
    by_forward = "    model.forward = torch.compile(model.forward, dynamic=False)"
    lines = [by_forward if passed_over else "    model.compile(dynamic=False)"]
    assert added(patch) == lines
    write(tmp_path, train=train + copies)  # a copy would call the first's, a file cannot hold it
    patch = make_patch(change, found, ["train.py", "net.py"], tmp_path)
    assert added(patch) == ([] if passed_over else lines)
    reasons = [reason for _, reason in patch.unplaced]
    assert [each.rpartition(": ")[2] for each in reasons] == [
        "call what torch.compile returns for it"
    ] * passed_over


@pytest.mark.parametrize(
    ("scope", "blocks", "checkpoints", "settings"),
    [
        ("blocks", 4, False, ()),
        ("blocks", 5, False, ("cache_size_limit = 128",)),
        ("blocks", 5, True, ("cache_size_limit = 128", "specialize_float = True")),
        ("whole", 5, False, ()),
        ("whole", 2, True, ("specialize_float = True",)),
    ],
)
def test_torch_is_set_up_for_many_blocks_and_for_checkpoints(
    folder, scope, blocks, checkpoints, settings
):
    found = evidence_of(folder)
    model, block, _ = found.calls
    inner = (
        replace(block, path=f"blocks.{each}", recomputed=checkpoints) for each in range(blocks)
    )
    found = replace(found, calls=(model, *inner))
    patch = make_patch(wanted(("compile", {"scope": scope})), found, ["train.py"], folder)
    lines = [each.partition("  #")[0] for each in added(patch)]
    expected = [f"torch._dynamo.config.{each}" for each in settings]
    assert [each for each in lines if "config" in each] == expected
    train = (folder / "train.py").read_text()
    (folder / "train.py").write_text(
        train.replace("\n\n\n", "\n" + "\n".join(expected) + "\n\n\n", 1)
    )
    patch = make_patch(wanted(("compile", {"scope": scope})), found, ["train.py"], folder)
    assert not any("config" in each for each in added(patch))  # it is there already


@pytest.mark.parametrize(
    ("built", "call", "path", "after"),
    [
        ("vae = Vae()", "vae.decode", "decoder", "vae.decoder.compile()"),
        (
            "vae = Vae.from_pretrained(x)\nvae.to(y)",
            "vae.decode",
            "decoder",
            "vae.decoder.compile()",
        ),
        ("vae = Vae()\nvae = vae.to(y).eval()", "vae.decode", "decoder", "vae.decoder.compile()"),
        ("pipe = Pipeline(x)", "pipe.vae.decode", "decoder", "pipe.vae.decoder.compile()"),
        ("pipe = Pipeline(x)", "pipe.vae.decode", "vae.decoder", "pipe.vae.decoder.compile()"),
        ("vae = Vae() if x else None\nvae = load(vae)", "vae.decode", "decoder", ""),
        ("from other import vae", "vae.decode", "decoder", ""),
        ("vae = Vae()", "vae.decode", "Decoder#2", ""),  # an outermost one
    ],
)
def test_a_model_of_which_a_method_calls_a_part(tmp_path, built, call, path, after):
    write(tmp_path, train=METHOD.format(built=built, call=call))
    found = evidence_of(tmp_path, model=re.compile(r"= [a-z.]+\(latent\)"), kind="Decoder")
    calls = tuple(
        replace(each, path=path) if each.kind == "Decoder" else each for each in found.calls
    )
    patch = make_patch(wanted(("compile", {})), replace(found, calls=calls), ["train.py"], tmp_path)
    assert added(patch) == [after] * bool(after)
    assert bool(patch.unplaced) != bool(after)
    if after:
        subprocess.run(["git", "apply"], input=patch.text, text=True, cwd=tmp_path, check=True)
        text = (tmp_path / "train.py").read_text()
        assert text.index(built.splitlines()[-1]) < text.index(after) < text.index("for latent")


def test_calls_of_checkpoint_in_one_file_share_one_budget(tmp_path):
    write(tmp_path, train=TRAINER)
    patch = patched(tmp_path, ("selective-checkpoints", {"peak_gib": 50.0}))
    assert added(patch) == [
        "from pitstop.parts.checkpoints import Checkpoints, Room",
        "",
        "checkpointed = Checkpoints(Room(peak_bytes=53687091200))",
        "\t\treturn x + checkpointed(self.block, x)",
    ]
    assert not patch.unplaced


def test_calls_of_checkpoint_in_several_files_are_left_to_the_user(tmp_path):
    write(
        tmp_path,
        train=TRAINER.replace("import torch\n", "import torch\n\nimport other\n", 1),
        other="from torch.utils.checkpoint import checkpoint\ncheckpoint(f, x)\n",
    )
    patch = patched(tmp_path, "selective-checkpoints")
    (said,) = (why for _, why in patch.unplaced)
    assert said.startswith("checkpoint is called in several files")
