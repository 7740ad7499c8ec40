"""The file of kept changes: it comes back as written, and strangers can put nothing into it."""

import tomllib

import pytest

import pitstop.tune.changes
from pitstop.core.comparison import Comparison
from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Evidence, Step
from pitstop.tune import ranges
from pitstop.tune.change import Facts, load_changes
from pitstop.tune.plan import Wanted
from pitstop.tune.tuned import LARGEST_BYTES, Origin, read_tuned, write_tuned

ORIGIN = Origin('python train.py --name "ü\\n\x7f"', "2026-11-15", "a CPU, 2 cores", "2.13.0")
KEPT = (Wanted("loader", {"workers": 2}), Wanted("tf32"))
PROOF = Comparison(
    "step", "better", 0.5, 0.45, 0.55, 6, "more than 1.0 %", before=180.0, after=90.0, unit="ms"
)


def test_what_is_written_comes_back(tmp_path):
    path = tmp_path / "tuned.toml"
    write_tuned(path, KEPT, PROOF, ORIGIN)
    assert read_tuned(path) == KEPT
    fields = tomllib.loads(path.read_text(encoding="utf-8"))
    assert fields["command"] == ORIGIN.command
    assert fields["proof"]["ratio_high"] == 0.55
    assert (fields["proof"]["before"], fields["proof"]["unit"]) == (180.0, "ms")


def test_whatever_an_option_is_called_and_holds_the_file_is_toml(tmp_path):
    path = tmp_path / "tuned.toml"
    write_tuned(path, (Wanted("of-a-plugin", {"odd key": "a\"b'"}),), None, ORIGIN)
    (change,) = tomllib.loads(path.read_text(encoding="utf-8"))["change"]
    assert change["options"] == {"odd key": "a\"b'"}


def test_each_option_has_a_range_in_which_all_that_is_tried_lies():
    """Else a file that `pitstop tune` writes would be refused by `pitstop run`."""
    evidence = Evidence(steps=(Step(10.0),) * 9)
    for cores in (1, 16, 512):
        for each in load_changes(pitstop.tune.changes):
            for options in each.tries(Facts(evidence, "cuda", cores)):
                ranges.check(each.name, options, each.ranges)


@pytest.mark.parametrize(
    ("name", "option", "complaint"),
    [
        ("threads", "threads = 100000", "threads: threads = 100000: choose from 1 to 512"),
        ("threads", "threads = true", "threads = True: choose from 1 to 512"),
        ("loader", "workers = 300", "workers = 300: choose from 1 to 128"),
        ("loader", "workers = -1", "workers = -1"),
        ("loader", "workers = 2.5", "workers = 2.5"),
        ("loader", "prefetch = 9999", "prefetch = 9999: choose from 1 to 64"),
        ("loader", "workerz = 1", "no option 'workerz': it knows workers, prefetch"),
        ("tiled-vae", "share = nan", "share = nan: choose from 0.01 to 1"),
        ("tiled-vae", "share = 0", "share = 0"),
        ("batch-size", "factor = 1000000000", "choose from 2 to 64"),
        ("compile", "scope = 'everything'", "choose from whole, blocks, inside-checkpoints"),
        ("compile", "dynamic = 1", "dynamic = 1: choose from true, false"),
        ("compile", "backend = 'evil'", "backend = 'evil'"),
        ("tf32", "workers = 1", "no option 'workers': it has none"),
    ],
)
def test_an_option_outside_its_range_is_refused_in_one_line(name, option, complaint, tmp_path):
    path = tmp_path / "tuned.toml"
    path.write_text(f"schema = 1\n[[change]]\nname = '{name}'\noptions = {{ {option} }}\n")
    with pytest.raises(PitstopError) as caught:
        read_tuned(path)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_a_proof_the_file_claims_none(tmp_path):
    path = tmp_path / "tuned.toml"
    write_tuned(path, KEPT, None, ORIGIN)
    assert "proof" not in tomllib.loads(path.read_text(encoding="utf-8"))
    assert read_tuned(path) == KEPT


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("schema = 1\n[[change]]\nname = 'os.path'\n", "not the name of a change"),
        ("schema = 1\n[[change]]\nname = '../x'\n", "not the name of a change"),
        ("schema = 1\n[[change]]\nname = 'tf32'\noptions = {a = [1]}\n", "options"),
        ("schema = 1\n[[change]]\noptions = {}\n", "name"),
        ("schema = 1\nchange = 3\n", "array"),
        ("schema = 2\n", "schema 2"),
        ("schema = true\n", "schema True"),
        ("", "schema None"),
        ("schema = = 1", "not valid TOML"),
        ("# " + "x" * LARGEST_BYTES, "larger than"),
    ],
)
def test_what_is_not_ours_is_refused_in_one_line(text, complaint, tmp_path):
    path = tmp_path / "tuned.toml"
    path.write_text(text)
    with pytest.raises(PitstopError, match=complaint) as caught:
        read_tuned(path)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "tuned.toml"
    path.write_bytes(b"schema = \xff")
    with pytest.raises(PitstopError, match="not valid TOML"):
        read_tuned(path)


def test_a_missing_file_says_who_writes_it(tmp_path):
    with pytest.raises(PitstopError, match="pitstop tune SCRIPT"):
        read_tuned(tmp_path / "no.toml")


def test_what_is_for_trials_only_cannot_be_run_with(tmp_path):
    path = tmp_path / "tuned.toml"
    write_tuned(path, (Wanted("leave-out"),), None, ORIGIN)
    with pytest.raises(PitstopError, match="for trials only: edit the source instead"):
        read_tuned(path)
