"""Pretrained: which calls read the weights of whole networks, and how often."""

import ast
import re
from collections.abc import Iterator

from pitstop.scan.branches import branches_around
from pitstop.scan.source import Source

# Loaded in milliseconds, or holding no weights.
SMALL = re.compile(
    r"Tokenizer(?:Fast)?$|Scheduler$|Config$|Processor$|FeatureExtractor$|GenerationConfig$"
    r"|^(?:self|cls|super|Dataset|EMAModel|LoraConfig)$"
)
NETWORK = re.compile(
    r"Pipeline|Model|Autoencoder|UNet|Transformer|Encoder|VAE|ControlNet|Adapter|ForCausalLM"
    r"|ForConditionalGeneration|AutoPipe|VQ|Upscal|Detector|^AutoModel"
)
TEXT_ENCODER = re.compile(r"^text_encoder(?:_\d)?$")
CALLERS_DEPTH = 2  # functions between a test for a cached network and its loading
# A test that asks whether it is there already, for its two branches.
MISSING = re.compile(r"is None|(?<!is )\bnot \w|hasattr|cache|final|last", re.IGNORECASE)
PRESENT = re.compile(r"is not None|hasattr|\bin\b|cache|final|last", re.IGNORECASE)
LOADERS = ("torch.hub.load", "torch.jit.load", "timm.create_model", "lpips.LPIPS", "clip.load")


def class_of(source: Source, call: ast.Call) -> str:
    """The class whose ``from_pretrained`` is called: ``FluxPipeline``; empty when unclear."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return source.name_of(owner).rpartition(".")[2] if owner is not None else ""


def loads_of_networks(source: Source) -> Iterator[ast.Call]:
    """Calls of ``from_pretrained`` and ``from_single_file`` of classes that hold weights."""
    for call in source.method_calls("from_pretrained", "from_single_file"):
        name = class_of(source, call)
        if name[:1].isupper() and NETWORK.search(name) and not SMALL.search(name):
            yield call


def is_pipeline(name: str) -> bool:
    """Whether a class holds several networks: ``FluxPipeline``, ``AutoPipelineForText2Image``."""
    return "Pipeline" in name


def has_its_parts(source: Source, call: ast.Call) -> bool:
    """Whether a pipeline is handed its large networks, so that little is left to load."""
    if not is_pipeline(class_of(source, call)):
        return False
    parts = dict(source.keywords(call))
    core = [parts[name] for name in ("unet", "transformer") if name in parts]
    if any(isinstance(each, ast.Constant) for each in core):
        return True  # None: the networks are loaded in turn, to save memory
    encoders = any(TEXT_ENCODER.search(name) for name in parts)
    return source.open_ended(call) or (encoders and ("vae" in parts or bool(core)))


def is_kept(source: Source, call: ast.Call, depth: int = CALLERS_DEPTH) -> bool:
    """Whether it is loaded once and kept, by a test around it or by all who call the function."""
    function = source.enclosing_function(call)
    if isinstance(source.statement(call), ast.Return) or _is_asked_for(source, call):
        return True  # whoever calls the function decides how long it is kept
    if function is None or depth == 0:
        return False
    cached = any("cache" in ast.unparse(each) for each in function.decorator_list)
    calls = [*source.calls(function.name), *source.calls(f"self.{function.name}")]
    return cached or (bool(calls) and all(is_kept(source, each, depth - 1) for each in calls))


def _is_asked_for(source: Source, call: ast.Call) -> bool:
    """Whether a test asks if it is there already, or if this is the end of the run."""
    for block, field in branches_around(source, call):
        words = PRESENT if field == "orelse" else MISSING
        if isinstance(block, ast.If) and words.search(source.text_of(block.test)):
            return True
        if isinstance(block, ast.ExceptHandler):
            return True
    return False


def is_dropped_before(source: Source, call: ast.Call) -> bool:
    """Whether ``del vae`` above made room: it is loaded again to save memory meanwhile."""
    statement = source.statement(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = {ast.unparse(each) for each in targets}
    dropped = [each for each in source.nodes(ast.Delete) if each.lineno < statement.lineno]
    return any(ast.unparse(each) in names for drop in dropped for each in drop.targets)
