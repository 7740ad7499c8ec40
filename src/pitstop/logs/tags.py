"""Tags: what a series is about, told by its name as people and libraries spell it. Pure."""

import re

from pitstop.logs.history import Run, Series

LOSS = re.compile(r"(?i)loss|(^|[/_.-])(nll|mse|mae|l1|l2|elbo|perplexity|charbonnier)($|[/_.-])")
GRADIENT = re.compile(r"(?i)grad(ient)?s?[/_. -]?(2\.0_)?norm|(^|[/_.-])gnorm|norm[/_. -]?grad")
RATE = re.compile(r"(?i)(^|[/_. -])(lr|learning[_ -]?rate)(\d*$|[/_. -])")
SCALE = re.compile(r"(?i)(^|[/_. -])((loss|grad|amp|gradient)[/_. -]?scale|scaler?)(r|[/_.-]|$)")
THROUGHPUT = re.compile(
    r"(?i)(samples|steps|iters?|iterations|it|images?|imgs?|frames|examples|tokens|batches)"
    r"(_per_|/|_?p_?)s(ec|econd)?s?$|throughput|(^|[/_.-])fps$",
)
SECONDS = re.compile(
    r"(?i)^time$|(step|batch|iter|iteration)[_ ]?time|time[_/](per_)?(step|iter|batch)"
    r"|sec[_/](per_)?(step|iter|it)|s/it$|(step|iter)_m?s$"
)
METRIC = re.compile(
    r"(?i)(^|[/_.-])(acc(uracy)?\d?|top\d|psnr|ssim|lpips|fid|m?iou|m?ap\d*|f1|dice|auc|reward|precision"
    r"|recall|error|pck)($|[/_@.-])",
)
RISING = re.compile(  # metrics of which more is better
    r"(?i)(^|[/_.-])(acc(uracy)?\d?|top\d|psnr|ssim|m?iou|m?ap\d*|f1|dice|auc|reward|precision|recall|pck)"
    r"($|[/_@.-])",
)
CHECKED = re.compile(r"(?i)(^|[/_.-])(val|valid|validation|eval|dev|test)($|[/_.-])")
TRAINED = re.compile(r"(?i)(^|[/_.-])(train|training)($|[/_.-])")
EPOCHLY = re.compile(r"_(epoch|step)$")


def losses(run: Run) -> list[Series]:
    """Losses of the training, the shortest name first: that is usually the sum."""
    found = [each for each in run.series if LOSS.search(each.tag) and not is_checked(each.tag)]
    found = [each for each in found if not SCALE.search(each.tag)]
    return sorted(found, key=lambda each: (len(each.tag), each.tag))


def gradient_norms(run: Run) -> list[Series]:
    """Norms of gradients, of the whole model or of its parts."""
    return [each for each in run.series if GRADIENT.search(each.tag)]


def rates(run: Run) -> list[Series]:
    """Learning rates, one for each group of parameters."""
    return [each for each in run.series if RATE.search(each.tag)]


def scales(run: Run) -> list[Series]:
    """What a gradient scaler multiplies the loss by."""
    return [each for each in run.series if SCALE.search(each.tag)]


def is_quality(tag: str) -> bool:
    """Whether it says how well a model does, so that it has to move."""
    named = LOSS.search(tag) or METRIC.search(tag)
    return bool(named) and not SCALE.search(tag) and not RATE.search(tag)


def is_checked(tag: str) -> bool:
    """Whether it was taken on data that the model does not learn from."""
    return bool(CHECKED.search(tag))


def partner(tag: str) -> str:
    """What is left of a name without its split: ``val/loss`` and ``train_loss`` are both loss."""
    bare = TRAINED.sub("/", CHECKED.sub("/", EPOCHLY.sub("", tag)))
    return bare.strip("/_.-").lower()
