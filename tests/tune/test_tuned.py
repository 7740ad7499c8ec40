"""The file of kept changes: it comes back as written, and strangers can put nothing into it."""

import tomllib

import pytest

from pitstop.core.comparison import Comparison
from pitstop.core.errors import PitstopError
from pitstop.tune.plan import Wanted
from pitstop.tune.tuned import LARGEST_BYTES, Origin, read_tuned, write_tuned

ORIGIN = Origin('python train.py --name "ü\\n\x7f"', "2026-11-15", "a CPU, 2 cores", "2.13.0")
KEPT = (Wanted("loader", {"workers": 2, "odd key": "a\"b'"}), Wanted("tf32"))
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
