import pytest

from pitstop.scan.rules.compile_off_for_an_old_bug import compile_off_for_an_old_bug
from pitstop.scan.source import Source

USE = "\nif compile_model:\n    model = torch.compile(model)\n"


@pytest.mark.parametrize(
    "text",
    [
        "compile_model = False",  # no reason given
        "compile_model = False  # slow to start, turn on for long runs",
        "compile_model = True  # crashes with checkpointing",
        "use_amp = False  # compile fails",
        "pattern = re.compile('x')  # broken",
    ],
)
def test_leaves_alone(text):
    assert compile_off_for_an_old_bug(Source(f"import re, torch\n{text}{USE}")) == []


def test_quiet_where_nothing_is_compiled():
    assert compile_off_for_an_old_bug(Source("compile_model = False  # fails\n")) == []


@pytest.mark.parametrize(
    "text",
    [
        "# torch.compile crashes with drop_path\ncompile_model = False",
        "run(compile=False)  # not supported with hooks",
        "class Options:\n    compile_model: bool = False  # known bug",
        "options = dict(use_compile=False)  # doesn't work with LoRA",
    ],
)
def test_finds(text):
    (finding,) = compile_off_for_an_old_bug(Source(f"import torch\n{text}{USE}"))
    assert (finding.severity, finding.changes) == ("note", ("compile",))


def test_reads_config_files():
    text = "train:\n  compile_model: false  # incompatible with checkpointing\n  amp: true\n"
    (finding,) = compile_off_for_an_old_bug(Source(text, "train.yaml"))
    assert finding.span is not None
    assert finding.span.line == 2
    assert "incompatible with checkpointing" in finding.message
    assert compile_off_for_an_old_bug(Source("compile: false\n", "train.yaml")) == []
