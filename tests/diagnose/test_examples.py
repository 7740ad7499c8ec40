"""The `Bad:` and `Good:` blocks of run-time rules, run and thought about by the real ledger."""

import os
import sys
import textwrap
from functools import partial
from threading import Event, Thread
from types import ModuleType

import pytest

import pitstop.diagnose.rules
from diagnose.examples.built import SCENES as BUILT
from diagnose.examples.recorded import SCENES
from pitstop.core.machine import Limits, Machine, Package
from pitstop.core.rule import example, load_rules
from pitstop.diagnose.rank import diagnose
from pitstop.diagnose.recording import Recording
from pitstop.profile.read.collect import collect
from pitstop.profile.record.host import HostMeter
from pitstop.profile.start.options import Options

torch = pytest.importorskip("torch")

RULES = {rule.name: rule for rule in load_rules(pitstop.diagnose.rules)}
MACHINE = Machine(
    cores=8,
    packages=(Package("torch", torch.__version__.partition("+")[0]),),
    limits=(Limits("cpu", copy_bytes_per_s=1e10, fp32_flops=1e11),),
)
HEAD = "import pathlib, time\nimport torch\nfrom torch import nn\ntorch.manual_seed(0)\n"


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Run a script in this process, all hooks on; what was recorded of it."""
    from pitstop.profile.hooks import hooks
    from pitstop.profile.record import recorder

    # Other tests of this process may have compiled something, and then nobody looks closely.
    monkeypatch.setattr("pitstop.profile.inspect.inspector.compiled_anything", lambda: False)

    monkeypatch.setattr("pitstop.profile.record.host.EVERY_SECONDS", 0.05)

    def run(text):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        path = folder / "script.py"
        path.write_text(text)
        module = ModuleType(path.stem)
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, path.stem, module)
        found = recorder.Recorder(Options(str(folder), warmup=1, baseline=4))
        found.undo = hooks.install(found)
        over, meter = Event(), HostMeter(os.getpid(), folder)
        sampling = Thread(
            target=lambda: [meter.sample() for _ in iter(partial(over.wait, 0.1), True)]
        )
        sampling.start()
        try:
            exec(compile(text, str(path), "exec"), vars(module))
        finally:
            found.close()
            over.set()
            sampling.join()
        return Recording(collect(folder, 1), MACHINE)

    return run


def scene(name, heading):
    """The script of a rule with one of its examples where it belongs."""
    text, block = HEAD + SCENES[name], example(RULES[name].doc, heading)
    for line in text.splitlines():
        if line.strip() == "EXAMPLE":
            indent = line[: line.index("EXAMPLE")]
            text = text.replace(line, textwrap.indent(block.rstrip(), indent), 1)
    return text


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_the_bad_example_is_found_when_it_runs_and_the_good_one_is_not(name, recorded):
    code = RULES[name].code
    bad = recorded(scene(name, "Bad"))
    assert code in {each.code for each in diagnose(bad)}, bad.ledger
    good = recorded(scene(name, "Good"))
    assert code not in {each.code for each in diagnose(good)}, good.ledger


@pytest.mark.parametrize("name", BUILT)
def test_the_bad_run_is_found_by_the_real_ledger_and_the_good_one_is_not(name):
    bad, good = ({each.code for each in diagnose(run)} for run in BUILT[name])
    assert RULES[name].code in bad
    assert RULES[name].code not in good


@pytest.mark.parametrize("name", BUILT)
def test_the_rows_of_a_built_run_add_up_and_its_promises_fit_into_them(name):
    for run in BUILT[name]:
        if ledger := run.ledger:
            assert ledger.total() == pytest.approx(ledger.step_ms)
            promised = [each.saving or 0.0 for each in diagnose(run) if each.per == "step"]
            assert sum(promised) <= 1.0 + 1e-9


def test_every_rule_has_a_scene():
    assert SCENES.keys() | BUILT.keys() == RULES.keys()
    assert not SCENES.keys() & BUILT.keys()
