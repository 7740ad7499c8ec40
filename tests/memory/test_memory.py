import sys
from pathlib import Path

import click.testing
import pytest

from pitstop.cli.main import command as pitstop
from pitstop.core.errors import PitstopError
from pitstop.memory import to_page, to_text
from pitstop.memory.answer import answer_of
from pitstop.memory.cards import CONTEXT, GIB, bytes_of
from pitstop.memory.fits import largest, needs
from pitstop.memory.see import see
from pitstop.parts.memory.account import account_of

SCRIPTS = Path(__file__).parent / "scripts"


def seen(name, *words, real=False, tell=lambda text: None):
    return see([sys.executable, str(SCRIPTS / name), *words], real, 60.0, tell)


@pytest.fixture(scope="module")
def eight():
    return seen("train.py", "8")


def test_stand_ins_need_what_real_steps_need(eight, capfd):
    real = seen("train.py", "8", real=True)
    said = capfd.readouterr().out
    peaks = [account_of(each.trace, rounded=False) for each in (eight, real)]
    assert peaks[0].peak_bytes == peaks[1].peak_bytes
    assert peaks[0].kinds == peaks[1].kinds
    assert (eight.steps, eight.batch, eight.trouble) == (2, 8, "")
    assert "step 0" in said
    assert "the end" not in said


def test_other_batches_are_played_from_what_was_seen(eight):
    played, real = needs(eight, 4.0), needs(seen("train.py", "32"))
    assert played.peak_bytes == pytest.approx(real.peak_bytes, rel=0.01)
    in_use = [each.peak_bytes - each.kinds["workspace"] for each in (played, real)]
    assert in_use[0] == pytest.approx(in_use[1], rel=0.01)


def test_the_largest_batch_fits_and_a_larger_one_does_not(eight):
    room = 256 * 2**20
    times = largest(eight, room)
    assert needs(eight, times).reserved_bytes <= room
    assert needs(eight, 1.1 * times).reserved_bytes > room
    assert largest(eight, 2**20) == 0


def test_says_who_holds_what(eight):
    text = to_text.render(answer_of(eight, "train.py", "RTX 4070 SUPER"))
    assert text.startswith("Verdict  A training step needs ")
    assert "It fits RTX 4070 SUPER" in text
    assert "Sequential.4" in text
    assert "train.py:" in text.partition("By line")[2]


def test_the_page_draws_each_kind_and_loads_nothing(eight):
    page = to_page.render(answer_of(eight, "train.py <8>", "12GiB"))
    assert page.count("<polygon") >= 6
    assert "train.py &lt;8&gt;" in page
    assert "http" not in page
    assert "src=" not in page


def test_what_cannot_run_with_stand_ins_takes_two_real_steps(capfd):
    told = []
    found = seen("decides.py", tell=told.append)
    assert found.real
    assert found.steps == 2
    assert "stand-ins did not do" in told[0]
    assert "the end" not in capfd.readouterr().out


def test_a_script_that_does_not_train_is_a_call():
    found = seen("calls.py")
    assert not found.training
    assert needs(found).kinds["parameters"] > 0


@pytest.mark.parametrize(
    ("card", "size"),
    [
        ("RTX 4070 SUPER", 12 * GIB),
        ("NVIDIA GeForce RTX 4090", 24 * GIB),
        ("A100 80GB", 80 * GIB),
        ("NVIDIA A100-SXM4-80GB".replace("-SXM4", ""), 80 * GIB),
        ("12GiB", 12 * GIB),
        ("6000MiB", 6000 * 2**20),
        ("24", 24 * GIB),
    ],
)
def test_cards_by_name_and_by_size(card, size):
    assert bytes_of(card) == size


@pytest.mark.parametrize("card", ["RTX 9999", "0.1", "1.2.3", ".", "", "Voodoo"])
def test_unknown_cards_are_refused_in_one_line(card):
    with pytest.raises(PitstopError, match="12GiB") as refused:
        bytes_of(card)
    assert "\n" not in str(refused.value)
    assert CONTEXT < GIB


def test_a_script_without_a_model_is_refused(tmp_path):
    script = tmp_path / "nothing.py"
    script.write_text("import torch\n")
    with pytest.raises(PitstopError, match="no model was called"):
        see([sys.executable, str(script)], real=False, seconds=60.0, tell=lambda text: None)


def test_the_page_must_be_html():
    runner = click.testing.CliRunner()
    result = runner.invoke(pitstop, ["memory", "--output", "x.pdf", str(SCRIPTS / "train.py")])
    assert isinstance(result.exception, PitstopError)
