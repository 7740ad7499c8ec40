"""Precision: in which precision a project computes, and where that would be set."""

import re
from functools import lru_cache
from pathlib import PurePosixPath

from pitstop.scan.facts import FileFacts
from pitstop.scan.project import Project

MATMUL_SWITCHES = ("torch.set_float32_matmul_precision", "torch.backends.cuda.matmul.allow_tf32")
# Convolutions use TF32 unasked: only a network with attention has much to gain.
ATTENTION = (
    *("torch.nn.functional.scaled_dot_product_attention", "torch.nn.MultiheadAttention"),
    *("torch.nn.TransformerEncoderLayer", "torch.nn.TransformerDecoderLayer"),
)
SOFTMAX = ("torch.softmax", "torch.nn.functional.softmax", "torch.nn.Softmax")
HALF = {"torch.float16", "torch.bfloat16", "torch.half"}
FRAMEWORKS = ("accelerate.", "transformers.Trainer", "transformers.TrainingArguments")
OPTIONS = re.compile(r"^(?:use_?)?(?:amp|tf32|fp16|bf16|half|mixed_?precision|precision|dtype)$")
STARTS = re.compile(r"train|main|finetune|fit|run|demo|infer|test|sample", re.IGNORECASE)
ASIDE = re.compile(r"(?:^|/)(?:tests?|third_party|scripts|tools|docs|benchmarks?)/|(?:^|/)test_")


@lru_cache(maxsize=1)
def entry_script(project: Project) -> str | None:
    """The path of the script to start: the nearest to the root, training before the rest."""
    scripts = filter(_is_script, project.files)
    first = min(map(_rank, scripts), default=None)
    return first[-1] if first else None


def _is_script(file: FileFacts) -> bool:
    """Whether a file runs something when it is started, and looks like a beginning."""
    if not any(each.calls for each in file.functions if not each.name):
        return False
    starts = "backward" in file.methods or STARTS.search(PurePosixPath(file.path).stem)
    return bool(starts) and not ASIDE.search(file.path)


def _rank(file: FileFacts) -> tuple[int, bool, bool, str]:
    stem = PurePosixPath(file.path).stem
    return file.path.count("/"), "train" not in stem, "main" not in stem, file.path


@lru_cache(maxsize=1)
def is_precision_set(project: Project) -> bool:
    """Whether TF32 is set, or another precision is in use, anywhere."""
    if project.uses_amp or project.fp32_precision_switches or project.sets(*MATMUL_SWITCHES):
        return True
    if project.mentions(*FRAMEWORKS) or project.calls_method("half", "bfloat16"):
        return True
    if any(OPTIONS.search(setting.key.lower()) for setting in project.settings):
        return True
    # A file that names float32 beside float16 leaves the choice to a flag, which nobody passes.
    names = [{name for name, _ in file.names} for file in project.files]
    return any(each & HALF and "torch.float32" not in each for each in names)


@lru_cache(maxsize=1)
def runs_attention(project: Project) -> bool:
    """Whether it runs a network with attention on a GPU."""
    runs = project.calls_method("backward") or project.mentions(
        "torch.no_grad", "torch.inference_mode", "pytorch_lightning.Trainer"
    )
    on_gpu = project.calls_method("cuda") or project.mentions("torch.cuda.", "torch.device")
    soft = project.mentions(*SOFTMAX) or project.calls_method("softmax")
    linear = project.mentions("torch.nn.Linear") and project.mentions("torch.nn.LayerNorm")
    attends = project.mentions(*ATTENTION) or (soft and linear)
    return runs and on_gpu and attends
