"""The files of the user's that a run was made of."""

from pitstop.tune.patch.sources import digests
from tune.sourced import NET, TRAIN, evidence_of, write


def test_an_edit_is_seen_in_the_script_and_in_what_it_imports_and_nowhere_else(tmp_path):
    write(tmp_path, train=TRAIN, net=NET, other="x = 1\n")
    write(tmp_path / "venv", library="y = 1\n")
    evidence = evidence_of(tmp_path)
    before = digests(["train.py"], evidence, tmp_path)
    assert sorted(before) == ["net.py", "train.py"]
    write(tmp_path, other="x = 2\n")
    write(tmp_path / "venv", library="y = 2\n")
    assert digests(["train.py"], evidence, tmp_path) == before
    for name, text in (("net", NET), ("train", TRAIN)):
        write(tmp_path, **{name: f"{text}\n"})
        after = digests(["train.py"], evidence, tmp_path)
        assert {each for each in before if before[each] != after[each]} == {f"{name}.py"}
        write(tmp_path, **{name: text})
    assert digests(["train.py"], evidence, tmp_path) == before
    assert digests(["-m", "no_such"], evidence_of(tmp_path / "venv"), tmp_path) == {}
