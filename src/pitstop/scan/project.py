"""Project: the facts of all files together. Rules ask it what one file cannot tell."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from pitstop.scan.call_graph import (
    Index,
    asks_for_gradients,
    find_functions,
    hot_functions,
    read_index,
)
from pitstop.scan.facts import FileFacts, Switch
from pitstop.scan.hot import Hot
from pitstop.scan.settings import Setting

BASE_DEPTH = 8  # classes between a class and the library's; deeper is a loop in the names
AMP_NAMES = (
    *("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast"),
    *("torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.amp.autocast_mode.autocast"),
)
AMP_KEYWORDS = ("mixed_precision", "precision", "fp16", "bf16", "use_amp")
ACCUMULATION = (
    *("gradient_accumulation_steps", "accumulate_grad_batches", "accumulation_steps"),
    *("accum_iter", "grad_accum_steps", "accumulate_steps", "gradient_accumulation"),
    *("grad_accumulation_steps", "accum_steps", "grad_accum", "accumulate"),
)
TRAINING = {"backward", "manual_backward", "fit", "train"}  # methods
LEGACY_TF32 = (
    *("torch.backends.cuda.matmul.allow_tf32", "torch.backends.cudnn.allow_tf32"),
    "torch.set_float32_matmul_precision",
)
# What a file writes where a class of a library is meant: re-exports and the usual short names.
CLASS_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "torch.nn.Module": (
        *("torch.nn.modules.Module", "torch.nn.modules.module.Module", "nn.Module"),
        *("torch.jit.ScriptModule", "pytorch_lightning.LightningModule"),
        *("lightning.LightningModule", "lightning.pytorch.LightningModule"),
        *("diffusers.ModelMixin", "diffusers.models.modeling_utils.ModelMixin"),
        *("transformers.PreTrainedModel", "transformers.modeling_utils.PreTrainedModel"),
        *("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"),
    ),
    "torch.utils.data.Dataset": (
        *("torch.utils.data.IterableDataset", "torch.utils.data.dataset.Dataset"),
        *("torchvision.datasets.ImageFolder", "torchvision.datasets.VisionDataset"),
    ),
    "torch.utils.data.DataLoader": ("torch.utils.data.dataloader.DataLoader",),
    "torch.optim.Optimizer": ("torch.optim.optimizer.Optimizer",),
}
LIBRARY_CLASSES = {*CLASS_SYNONYMS, *(name for each in CLASS_SYNONYMS.values() for name in each)}


@dataclass(frozen=True, eq=False)  # told apart by identity: what is known of it is looked up often
class Project:
    """Everything known about the files of one scan."""

    files: tuple[FileFacts, ...] = ()

    @classmethod
    def of(cls, files: Iterable[FileFacts]) -> "Project":
        """Join the facts of files."""
        return cls(tuple(sorted(files, key=lambda each: each.path)))

    @cached_property
    def _index(self) -> Index:
        return read_index(self.files)

    @cached_property
    def _hot_by_function(self) -> Mapping[tuple[str, str], Hot]:
        return hot_functions(self._index)

    def hot_function(self, path: str, name: str) -> Hot | None:
        """Whether a whole function is hot: ``hot_function("models/vae.py", "VAE.decode")``."""
        return self._hot_by_function.get((path, name))

    def asks_for_gradients(self, path: str, name: str) -> bool:
        """Whether a function, or one that it calls, runs backward; an empty name: the module."""
        return asks_for_gradients(self._index, (path, name))

    def may_ask_for_gradients(self, name: str) -> bool:
        """Whether a function or method of this name, or one that it calls, runs backward."""
        keys = self._index.by_name.get(name, ())
        return any(asks_for_gradients(self._index, key) for key in keys)

    def takes_from(self, module: str) -> frozenset[str]:
        """Names that files import from a module; "*" where they may take all of it."""
        return frozenset(
            "*" if whole else name
            for package, name, whole in self._imports.get(module.rpartition(".")[2], ())
            if f".{module}".endswith(f".{package}")
        )

    @cached_property
    def _imports(self) -> Mapping[str, set[tuple[str, str, bool]]]:
        """By a module's last name: its whole name, what is taken of it, whether that is all."""
        found: dict[str, set[tuple[str, str, bool]]] = {}
        for imported in {each for file in self.files for each in file.imports}:
            package, _, name = imported.rpartition(".")
            found.setdefault(package.rpartition(".")[2], set()).add((package, name, name == "*"))
            found.setdefault(name, set()).add((imported, "", True))
        return found

    @cached_property
    def setting_values(self) -> frozenset[str]:
        """The last names in the values of config files: a class that is built by its name."""
        values = [each.value for each in self.settings if isinstance(each.value, str)]
        return frozenset(value.rpartition(".")[2] for value in values)

    def callers_train(self, path: str, module: str, name: str) -> bool:
        """Whether a file that calls a function trains; also where nobody calls it here."""
        callers = [
            file
            for file in self.files
            for function in file.functions
            for call in function.calls
            if call.target.rpartition(".")[2] == name.rpartition(".")[2]
            and (
                f"{module}.{name}" in file.imports
                or (path, name) in find_functions(self._index, file.path, call.target)
            )
        ]
        if not callers or any(TRAINING & {*file.methods} for file in callers):
            return True
        keys = [(file.path, each.name) for file in callers for each in file.functions]
        return any(asks_for_gradients(self._index, key) for key in keys)

    @cached_property
    def _tensor_functions(self) -> frozenset[tuple[str, str]]:
        return frozenset((file.path, name) for file in self.files for name in file.tensor_functions)

    def returns_tensor(self, path: str, name: str) -> bool:
        """Whether what a file calls by this name is a function that returns a tensor."""
        keys = find_functions(self._index, path, name)
        return bool(keys) and all(key in self._tensor_functions for key in keys)

    def is_called(self, name: str, elsewhere_than: str) -> bool:
        """Whether another file calls a function or method of this name."""
        return bool(self._callers.get(name, set()) - {elsewhere_than})

    @cached_property
    def _callers(self) -> Mapping[str, set[str]]:
        """Files by the last name of what they call."""
        found: dict[str, set[str]] = {}
        for file in self.files:
            for function in file.functions:
                for call in function.calls:
                    found.setdefault(call.target.rpartition(".")[2], set()).add(file.path)
        return found

    # What is already there ---------------------------------------------------------------------

    @cached_property
    def _names(self) -> Mapping[str, list[tuple[str, int]]]:
        found: dict[str, list[tuple[str, int]]] = {}
        for file in self.files:
            for name, line in file.names:
                found.setdefault(name, []).append((file.path, line))
        return found

    def where(self, name: str) -> list[tuple[str, int]]:
        """Files, with the first line, that use a library name: ``where("torch.compile")``."""
        return list(self._names.get(name, ()))

    def mentions(self, *names: str) -> bool:
        """Whether any file uses one of these library names; ``"torch.amp."`` means all below."""
        prefixes = tuple(name for name in names if name.endswith("."))
        if any(name in self._names for name in names):
            return True
        return bool(prefixes) and any(name.startswith(prefixes) for name in self._names)

    @cached_property
    def _methods(self) -> frozenset[str]:
        return frozenset(method for file in self.files for method in file.methods)

    @cached_property
    def _keywords(self) -> frozenset[str]:
        return frozenset(keyword for file in self.files for keyword in file.keywords)

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(key for file in self.files for key in file.keys)

    def calls_method(self, *methods: str) -> bool:
        """Whether any file calls ``anything.method(...)``: ``calls_method("no_sync")``."""
        return any(method in self._methods for method in methods)

    def passes_keyword(self, *keywords: str) -> bool:
        """Whether any call of any file passes ``keyword=``."""
        return any(keyword in self._keywords for keyword in keywords)

    def reads_key(self, *keys: str) -> bool:
        """Whether code reads an option: ``cfg["key"]``, ``cfg.key``, ``.get("key")``, ``--key``."""
        return any(key in self._keys for key in keys)

    @cached_property
    def switches(self) -> tuple[Switch, ...]:
        """Global switches of torch that the project sets, with value, place and offsets."""
        return tuple(switch for file in self.files for switch in file.switches)

    def sets(self, *names: str) -> list[Switch]:
        """Where these switches are set: ``sets("torch.backends.cudnn.benchmark")``."""
        return [switch for switch in self.switches if switch.name in names]

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """The scalar settings of all config files."""
        return tuple(setting for file in self.files for setting in file.settings)

    @cached_property
    def uses_amp(self) -> bool:
        """Whether mixed precision is in use anywhere, by torch or through a trainer."""
        return self.mentions(*AMP_NAMES) or self.passes_keyword(*AMP_KEYWORDS)

    @cached_property
    def accumulates(self) -> bool:
        """Whether gradients are accumulated over several batches anywhere."""
        return (
            self.passes_keyword(*ACCUMULATION)
            or self.reads_key(*ACCUMULATION)
            or self.calls_method("accumulate")
        )

    @cached_property
    def tf32_switches(self) -> tuple[Switch, ...]:
        """Where TF32 is set by the older API: ``allow_tf32`` and matmul precision."""
        return tuple(self.sets(*LEGACY_TF32))

    @cached_property
    def fp32_precision_switches(self) -> tuple[Switch, ...]:
        """Where TF32 is set by the newer API: ``torch.backends...fp32_precision``."""
        return tuple(each for each in self.switches if each.name.endswith(".fp32_precision"))

    @cached_property
    def _newest_torch(self) -> tuple[int, int] | None:
        return max((each.newest_torch for each in self.files if each.newest_torch), default=None)

    def runs_with_torch(self, *version: int) -> bool:
        """Whether nothing says that the project's torch is older: ``runs_with_torch(2, 0)``."""
        return self._newest_torch is None or self._newest_torch >= version

    def defines_method(self, name: str) -> bool:
        """Whether a class of the project has a method of this name."""
        return any("." in key[1] for key in self._index.by_name.get(name, ()))

    # Classes -----------------------------------------------------------------------------------

    @cached_property
    def _bases(self) -> Mapping[str, tuple[str, ...]]:
        return {
            f"{file.module}.{each.name}": each.bases for file in self.files for each in file.classes
        }

    @cached_property
    def _class_by_short_name(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for full in self._bases:
            found.setdefault(full.rpartition(".")[2], []).append(full)
        return found

    def knows_class(self, name: str) -> bool:
        """Whether a name can be a class of the project or one that ``derives`` knows."""
        return name.rpartition(".")[2] in self._class_by_short_name or name in LIBRARY_CLASSES

    def find_class(self, name: str, module: str = "") -> str:
        """Full name of the project class that ``name`` means in ``module``; empty if none."""
        for full in (name, f"{module}.{name}"):
            if full in self._bases:
                return full
        candidates = self._class_by_short_name.get(name.rpartition(".")[2], [])
        same = [full for full in candidates if full.endswith(f".{name}")]
        if len(same) == 1:
            return same[0]
        return candidates[0] if len(candidates) == 1 and "." in name else ""

    def derives(self, name: str, base: str, depth: int = BASE_DEPTH) -> bool:
        """Whether class ``name`` is or derives from ``base``, such as ``torch.nn.Module``."""
        if name == base or name in CLASS_SYNONYMS.get(base, ()):
            return True
        full = self.find_class(name)
        if not full or depth == 0:
            return False
        module = full.rpartition(".")[0]
        for parent in self._bases[full]:
            local = f"{module}.{parent}"
            known = local if local in self._bases else parent
            if known != name and self.derives(known, base, depth - 1):
                return True
        return False
