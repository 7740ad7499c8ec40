"""Vocabulary: the words of torch and its field that tell what a value is."""

from collections.abc import Mapping
from typing import Final, Literal

# fmt: off
Kind = Literal[
    "tensor", "device", "dtype", "shape", "str", "int", "float", "number", "bool", "none",
    "list", "tuple", "dict", "set", "ndarray", "module", "dataloader", "dataset",
    "optimizer", "scheduler", "scaler", "unknown",
]
# fmt: on


def words(text: str) -> frozenset[str]:
    """A set of words written as one text: long lists stay readable."""
    return frozenset(text.split())


def _all(names: str, kind: Kind, prefix: str = "") -> dict[str, Kind]:
    return {prefix + name: kind for name in names.split()}


DTYPES: Final = words(
    "torch.float16 torch.float32 torch.float64 torch.bfloat16 torch.half torch.float torch.double"
    " torch.int8 torch.int16 torch.int32 torch.int64 torch.int torch.long torch.uint8 torch.bool"
    " torch.complex64"
)

ANNOTATIONS: Final[Mapping[str, Kind]] = {
    **_all("torch.Tensor Tensor torch.FloatTensor torch.LongTensor torch.BoolTensor", "tensor"),
    **_all("torch.nn.Parameter torch.HalfTensor", "tensor"),
    **_all("torch.device", "device"),
    **_all("torch.dtype", "dtype"),
    "str": "str",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "dict": "dict",
    "list": "list",
    "tuple": "tuple",
    "set": "set",
    "torch.Size": "shape",
    "typing.List": "list",
    "typing.Dict": "dict",
    "typing.Tuple": "tuple",
    **_all("numpy.ndarray np.ndarray numpy.typing.NDArray", "ndarray"),
    **_all("torch.nn.Module nn.Module", "module"),
    **_all("torch.utils.data.DataLoader DataLoader", "dataloader"),
    **_all("torch.utils.data.Dataset Dataset", "dataset"),
    **_all("torch.optim.Optimizer Optimizer", "optimizer"),
}

CALL_KINDS: Final[Mapping[str, Kind]] = {
    "torch.device": "device",
    "torch.Size": "shape",
    "len": "int",
    "int": "int",
    "float": "float",
    "str": "str",
    "bool": "bool",
    "list": "list",
    "tuple": "tuple",
    "dict": "dict",
    "set": "set",
    "sorted": "list",
    "repr": "str",
    "isinstance": "bool",
    "round": "number",
    "range": "unknown",
    "next": "unknown",
    **_all("DataLoader dataloader.DataLoader", "dataloader", "torch.utils.data."),
    **_all("torch.cuda.amp.GradScaler torch.amp.GradScaler", "scaler"),
    **_all("torch.Tensor torch.tensor torch.as_tensor", "tensor"),
    **_all("array zeros ones asarray stack concatenate arange linspace", "ndarray", "numpy."),
    **_all("load empty full frombuffer", "ndarray", "numpy."),
    **_all("cv2.imread cv2.cvtColor cv2.resize", "ndarray"),
    **_all("time.time time.perf_counter time.monotonic", "float"),
    **_all("os.path.join os.path.basename os.path.dirname os.getcwd", "str"),
}

# What these methods return, whatever they are called on.
METHOD_KINDS: Final[Mapping[str, Kind]] = {
    "item": "number",
    "numpy": "ndarray",
    "numel": "int",
    "detach": "tensor",
    "unsqueeze": "tensor",
    "masked_fill": "tensor",
    "state_dict": "dict",
}

# Attributes and methods of something known to be a tensor.
TENSOR_ATTRIBUTES: Final[Mapping[str, Kind]] = {
    "device": "device",
    "dtype": "dtype",
    "shape": "shape",
    "ndim": "int",
    "is_cuda": "bool",
    "grad": "tensor",
    "data": "tensor",
    "T": "tensor",
    "mT": "tensor",
    "H": "tensor",
    "real": "tensor",
    "imag": "tensor",
    "requires_grad": "bool",
    "is_sparse": "bool",
}
TENSOR_METHODS: Final = words(
    "abs add addmm all amax amin any argmax argmin argsort bfloat16 bmm bool byte ceil clamp clip"
    " clone contiguous cos cpu cross cuda cumsum detach diff div double eq exp expand expand_as"
    " fill_ flatten flip float floor gather ge gt half index_select int isfinite isinf isnan le"
    " log long lt masked_fill masked_select matmul mean mm movedim mul mul_ add_ sub_ div_"
    " copy_ zero_ clamp_ ne neg new_zeros new_ones new_tensor new_full norm permute pow prod"
    " ravel reciprocal relu repeat repeat_interleave requires_grad_ reshape roll round rsqrt"
    " scatter scatter_ select sigmoid sign sin softmax sqrt square squeeze std sub sum t tanh to"
    " transpose tril triu type_as unflatten unfold unsqueeze var view view_as where pin_memory"
    " nonzero log_softmax masked_scatter exp_ bernoulli_ normal_ uniform_ cumprod"
)
SIZE_METHODS: Final = words("dim numel ndimension element_size nelement stride")
# Calling one of these makes a name a tensor: nothing else has them.
TENSOR_EVIDENCE: Final = (
    *("backward", "requires_grad_", "unsqueeze", "detach", "masked_fill", "expand_as"),
    *("masked_select", "index_select", "repeat_interleave", "bmm", "permute", "contiguous"),
)
# Functions of torch, torch.nn.functional and layers of torch.nn whose result is no tensor.
TORCH_NOT_TENSOR: Final = words(
    "is_tensor load save compile set_default_dtype set_num_threads get_num_threads manual_seed"
    " seed initial_seed no_grad enable_grad inference_mode set_grad_enabled is_grad_enabled"
    " split chunk unbind topk sort unique meshgrid broadcast_tensors tensor_split mode kthvalue"
    " max min median aminmax svd qr eig eigh slogdet lstsq allclose equal is_floating_point numel"
    " set_default_device get_default_dtype get_rng_state set_rng_state autocast vmap"
    " is_complex is_inference typename finfo iinfo device get_autocast_gpu_dtype"
    " is_autocast_enabled promote_types result_type can_cast multi_head_attention_forward"
    " use_deterministic_algorithms set_float32_matmul_precision get_float32_matmul_precision"
    " set_printoptions LSTM GRU RNN MultiheadAttention ModuleList ModuleDict Sequential"
    " DataParallel ParameterList ParameterDict Transformer AdaptiveLogSoftmaxWithLoss Module"
)
# Methods of torch, Python and every second class: a call of one says nothing about who is called.
COMMON_METHODS: Final = words(
    "add append backward build call clear close compute copy cpu create cuda detach done draw"
    " encode decode end eval extend fill finish fit flush forward format generate get init insert"
    " items join keys load log log_dict main mean open parse plot pop predict prepare print"
    " process put read release render reset resize run sample save send set setup show size"
    " sleep sort split start state_dict step stop sum test to train transform update validate"
    " values view wait warn info debug error write zero_grad load_state_dict parameters"
)
# Objects of options: their `device` may be a string.
CONFIG_NAMES: Final = words(
    "self cls args arg arguments argument cfg config conf configs opt opts options option hparams"
    " hparam params param"
    " flags settings setting kwargs namespace trainer context ctx info state torch"
)


def torch_call_kind(name: str) -> Kind:
    """Lower-case functions of torch make tensors, except those listed; classes are by package."""
    package, _, last = name.rpartition(".")
    for prefix, kind in (("torch.optim.lr_scheduler", "scheduler"), ("torch.optim", "optimizer")):
        if package == prefix and last[:1].isupper():
            return kind  # type: ignore[return-value]  # the two words above
    if package.startswith(("torch.nn", "torchvision.models")):
        if last[:1].isupper():
            return "tensor" if last == "Parameter" else "module"
        if package == "torch.nn.functional" or package.startswith("torchvision.models"):
            made: Kind = "module" if "models" in package else "tensor"
            return "unknown" if last in TORCH_NOT_TENSOR else made
    if package in ("torch", "torch.special", "torch.linalg", "torch.fft") and last.islower():
        return "unknown" if last in TORCH_NOT_TENSOR else "tensor"
    return "unknown"
