"""Ruled out: what the operations of the first run tell, for changes that need not be tried then."""

import re
from collections.abc import Iterator

from pitstop.core.evidence import Evidence, ModuleCall
from pitstop.diagnose.facts.attention import TORCHS_OWN, attentions
from pitstop.diagnose.facts.operations import EMPTYING, short
from pitstop.diagnose.facts.precision import PRODUCTS, in_float32

# Layers of torch's own that have weights: models are made of them.
LAYER = re.compile(
    r"(Lazy)?(Linear|(Conv|ConvTranspose|BatchNorm|InstanceNorm)[123]d)|Bilinear|Embedding(Bag)?"
    r"|(SyncBatch|Group|Layer|RMS)Norm|PReLU|MultiheadAttention|NonDynamicallyQuantizableLinear"
    r"|Transformer((En|De)coder(Layer)?)?|Sequential|(RNN|LSTM|GRU)(Cell)?"
)
TORCHS_BLOCKS = {"TransformerEncoderLayer", "TransformerDecoderLayer"}  # models repeat them
ALIKE = 2  # shapes of batches: the last one of an epoch is smaller
GROWS = 0.01  # of the memory reserved on a GPU: a single small tensor may come late
LAUNCHING = 0.25  # of the step: CUDA graphs take longer to compile, and keep memory
LITTLE = 0.01  # of the step: nothing below counts as a difference
WAITS = 0.02  # of the step: what a loader could save at most; below this it is not worth a trial


def may_repeat(kind: str) -> bool:
    """Whether a class with weights may be a block that models repeat, and no layer of one."""
    return kind in TORCHS_BLOCKS or not LAYER.fullmatch(kind)


def no_convolution(evidence: Evidence) -> str:
    """A reason where operations were seen and no convolution among them; else empty."""
    names = {each.name for each in evidence.operations}
    return "" if not names or any("conv" in name for name in names) else "nothing is convolved"


def no_checkpoint(evidence: Evidence) -> str:
    """A reason where modules ran and none of them ran again in the backward pass; else empty."""
    if not evidence.calls or any(each.recomputed for each in evidence.calls):
        return ""
    return "nothing is checkpointed"


def no_float32(evidence: Evidence) -> str:
    """A reason where products were seen and none of them of float32; else empty."""
    products = any(short(each) in PRODUCTS for each in evidence.operations)
    if not products or in_float32(evidence, PRODUCTS):
        return ""
    return "nothing is multiplied in float32"


def waits_for_launches(evidence: Evidence) -> bool:
    """Whether a GPU is idle for much of the step because its next kernel is not launched yet."""
    idle_ms = sum(each.micros for each in evidence.gaps if each.cause == "launch") / 1e3
    return 0 < LAUNCHING * (evidence.timeline_ms or 0.0) < idle_ms


def launches_in_time(evidence: Evidence) -> str:
    """A reason where a GPU was watched and hardly waited for launches; else empty."""
    waits = waits_for_launches(evidence) or not evidence.timeline_ms
    return "" if waits else "the GPU hardly waits for launches"


def no_group_norm(evidence: Evidence) -> str:
    """A reason where operations were seen and no GroupNorm among them; else empty."""
    names = {short(each) for each in evidence.operations}
    return "nothing is normalised in groups" if names and "native_group_norm" not in names else ""


def writing_weights(evidence: Evidence) -> list[ModuleCall]:
    """The calls of torch's own attention that write a matrix of weights, which they return."""
    written = {each.call for each in evidence.operations if short(each) == "_softmax"}
    return [
        each
        for place, each in enumerate(evidence.calls)
        if each.kind == TORCHS_OWN and place in written
    ]


def no_weights_written(evidence: Evidence) -> str:
    """A reason where work was seen and none of it was torch's attention writing its weights."""
    if not (evidence.calls or evidence.operations) or writing_weights(evidence):
        return ""
    return "no MultiheadAttention writes out what could be spared"


def no_attention_written(evidence: Evidence) -> str:
    """A reason where operations were seen and no model wrote its own attention; else empty."""
    own = any(each.kind != TORCHS_OWN for each in attentions(evidence))
    return "" if own or not evidence.operations else "no attention is written out"


def never_emptied(evidence: Evidence) -> str:
    """A reason where operations were seen and the GPU's cache was not emptied; else empty."""
    names = {each.name for each in evidence.operations}
    return "the GPU's cache is never emptied" if names and EMPTYING not in names else ""


def data_is_there(evidence: Evidence) -> str:
    """A reason where steps hardly wait for data; else empty."""
    waits = evidence.mean_ms("data_wait_ms") >= WAITS * evidence.mean_ms("total_ms")
    return "" if waits else "data is hardly waited for"


def no_graph(evidence: Evidence) -> str:
    """A reason where modules ran and nothing was recorded for a backward pass; else empty."""
    if not evidence.calls or any(each.graph for each in evidence.calls):
        return ""
    return "nothing is recorded for a backward pass"


def compiles_itself(evidence: Evidence) -> str:
    """A reason where the script calls torch.compile; else empty."""
    return "the script compiles by itself" if evidence.compiled else ""


def steps_of_epoch(evidence: Evidence) -> int | None:
    """How many batches the loader gives that is learned from, or the only one there is."""
    loaders = [each for each in evidence.loaders if each.trains] or evidence.loaders
    known = {each.per_epoch for each in loaders}
    return known.pop() if len(known) == 1 else None


def one_shape(evidence: Evidence) -> bool:
    """Whether the batches that are learned from are alike; without a loader, all that is given."""
    loaders = [each for each in evidence.loaders if each.trains] or evidence.loaders
    if loaders:
        return all(each.batch_shapes <= ALIKE for each in loaders)
    outermost = {(each.path, each.shapes) for each in evidence.calls if each.parent < 0}
    return len(outermost) == len({path for path, _ in outermost})


def steady_memory(evidence: Evidence) -> str:
    """A reason where the GPU's allocator hardly asks for more after warm-up; else empty."""
    reserved = sorted(_reserved(evidence))
    if not reserved or reserved[0] < (1 - GROWS) * reserved[-1]:
        return ""
    return "the GPU's allocator keeps what it has"


def _reserved(evidence: Evidence) -> Iterator[int]:
    """What the allocator held, reading by reading, in the undisturbed steps."""
    warm = evidence.steps[: evidence.warmup_steps + 1]
    for each in evidence.memory if warm else ():
        if each.gpu_reserved_bytes and not each.inspected and each.at_s > warm[-1].ended_s:
            yield each.gpu_reserved_bytes


def no_need_of_autocast(evidence: Evidence) -> str:
    """A reason where the script computes in half precision as it is; else empty."""
    settings = evidence.settings
    if settings and settings.autocast:
        return "the script has its own autocast"
    return no_float32(evidence)


def only_emulated(evidence: Evidence) -> str:
    """A reason where the device has no arithmetic for bfloat16; else empty."""
    if evidence.settings and not evidence.settings.bfloat16:
        return "the device has no arithmetic for bfloat16"
    return ""


def own_precision(evidence: Evidence) -> str:
    """What the script itself rounds to: under its autocast, or on a GPU with TF32; else float32.

    A change that rounds elsewhere, as other kernels do, does so in that precision too.
    """
    settings = evidence.settings
    if settings is None or settings.autocast:
        return settings.autocast if settings else "float32"
    tf32 = settings.tf32_matmul or (settings.tf32_cudnn and not no_convolution(evidence))
    return "tfloat32" if tf32 and settings.device.startswith("cuda") else "float32"
