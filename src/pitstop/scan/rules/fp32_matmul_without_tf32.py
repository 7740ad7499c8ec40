"""PIT301 fp32-matmul-without-tf32."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding, Fix
from pitstop.core.rule import rule
from pitstop.scan.edits import insert_after
from pitstop.scan.precision import entry_script, is_precision_set, runs_attention
from pitstop.scan.source import Source

SWITCH = 'torch.set_float32_matmul_precision("high")'


@rule("PIT301")
def fp32_matmul_without_tf32(source: Source) -> Iterator[Finding]:
    """Float32 matrices are multiplied without TF32, which leaves the tensor cores idle.

    From Ampere on a GPU multiplies in TF32 when it is allowed to. Convolutions are allowed it
    unasked, matrices are not. It rounds to ten bits: the fix is not a safe one. A model in
    bfloat16 or under autocast gains nothing, nor does one of convolutions.

    Bad:
        model = torch.nn.TransformerEncoderLayer(512, 8).cuda()
        for clip in train_loader:
            model(clip.cuda()).mean().backward()

    Good:
        torch.set_float32_matmul_precision("high")
        model = torch.nn.TransformerEncoderLayer(512, 8).cuda()
        for clip in train_loader:
            model(clip.cuda()).mean().backward()
    """
    project = source.project
    if project.uses_amp or not runs_attention(project):
        return
    if entry_script(project) != source.path or is_precision_set(project):
        return
    imports = source.nodes(ast.Import)
    first = next((each for each in imports if any(a.name == "torch" for a in each.names)), None)
    if first is not None and source.parent(first) is source.tree:
        fix = Fix("Allow TF32", (insert_after(source, first, SWITCH),))
        yield source.finding(first, fix=fix, confidence="suspected", changes=("tf32",))
