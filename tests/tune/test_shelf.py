"""Runs that others are held against, kept on disk for a search that is resumed."""

import math
from array import array

import pytest

from pitstop.compare.quantities import Sample
from pitstop.core.evidence import Evidence, Step
from pitstop.tune import shelf
from pitstop.tune.endings import Ending
from pitstop.tune.plan import Wanted
from pitstop.tune.readings import Output, Readings
from pitstop.tune.shelf import Held, Shelf, Which
from tune.scripted import Script, rounding, wanted

PIXELS = array("f", [0.1, math.nan, -math.inf, 65504.0])
HELD = Held(
    Readings(
        losses=(1.0, None, 0.1 + 0.2),
        earlier_losses=((), (2.0, None)),
        learning=((0.5, None), (1e-30, 3.0)),
        learns=frozenset({(0, 1), (1, 0)}),
        broken=(2,),
        batches=("ab", "cd"),
        outputs=(Output("Decoder", (1, 4), PIXELS.tobytes()),),
        calls=7,
    ),
    Sample(Evidence(steps=(Step(12.5),)), 4, ("psnr=30",)),
    ("train.py:3 warns: slow",),
)
MANY = Which(wanted("bf16"), 1, "bfloat16", 2)


def test_what_is_put_there_is_found_by_another_search(tmp_path):
    Shelf(tmp_path).put(MANY, HELD)
    found = Shelf(tmp_path).find(MANY)
    assert found == HELD
    assert found.readings.outputs[0].values.tobytes() == PIXELS.tobytes()
    assert Shelf().find(MANY) is None


@pytest.mark.parametrize(
    "other",
    [
        Which(wanted("fp16"), 1, "bfloat16", 2),
        Which((Wanted("bf16", {"scaler": True}),), 1, "bfloat16", 2),
        Which(wanted("bf16"), 2, "bfloat16", 2),
        Which(wanted("bf16"), 1, "float32", 2),
        Which(wanted("bf16"), 1, "bfloat16", 1),
    ],
)
def test_no_other_run_is_taken_for_it(tmp_path, other):
    Shelf(tmp_path).put(MANY, HELD)
    assert Shelf(tmp_path).find(other) is None


def test_another_machine_or_device_makes_its_own(tmp_path, monkeypatch):
    Shelf(tmp_path).put(MANY, HELD)
    with monkeypatch.context() as patch:
        patch.setattr(shelf.platform, "node", lambda: "elsewhere")
        assert Shelf(tmp_path).find(MANY) is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert Shelf(tmp_path).find(MANY) is None


def test_what_cannot_be_read_is_made_again(tmp_path):
    Shelf(tmp_path).put(MANY, HELD)
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text()[:99])
    assert Shelf(tmp_path).find(MANY) is None


def test_a_search_that_is_resumed_makes_no_untouched_run_again(track, tmp_path):
    def ending(asked):
        return Ending(0, warnings=() if asked.changes else ("train.py:3 warns: slow",))

    script = Script(rounding, ending)
    before = track(script, shelf=tmp_path / "held")
    before.check(())
    assert before.check(wanted("fused")).refused is None
    runs = len(script.plans)
    resumed = track(script, shelf=tmp_path / "held")
    assert resumed.check(wanted("fused")).refused is None
    assert [each.changes for each in script.plans[runs:]] == [wanted("fused")]


def test_what_the_untouched_script_warned_of_is_no_news_when_resumed(track, tmp_path):
    ending = Ending(0, warnings=("train.py:3 warns: slow",))
    script = Script(lambda asked: [2.0 if asked.changes else 1.0] * 6, ending)
    for _ in range(2):
        found = track(script, shelf=tmp_path / "held").check(wanted("fused"))
        assert found.refused == "drifted"
        assert "warns" not in found.note


def test_what_a_kept_change_warned_of_is_no_news_when_resumed(track, tmp_path):
    def losses(asked):
        names = {each.name for each in asked.changes}
        seed = asked.seed or 0
        draw = 0.01 * (-1) ** seed if "loader" in names else 0.0
        return [1.0 + 0.1 * seed + draw + ("bf16" in names)] * 6

    def ending(asked):
        warnings = [f"{each.name}.py:3 warns: slow" for each in asked.changes]
        late = [f"late.py:{asked.seed} warns: slow"] if asked.seed else []
        return Ending(0, warnings=(*warnings, *late))

    def batch(asked):
        return str([each.name for each in asked.changes if each.name == "loader"])

    script = Script(losses, ending, batch=batch)
    first = track(script, shelf=tmp_path / "held")
    assert first.check(wanted("loader")).needs_seeds
    assert first.over_seeds(wanted("loader")).refused is None
    note = first.check(wanted("loader", "bf16")).note
    assert note.endswith("bf16.py:3 warns: slow")
    resumed = track(script, shelf=tmp_path / "held").check(wanted("loader", "bf16"))
    assert resumed.note == note


def test_an_untouched_run_that_is_made_anew_replaces_the_one_of_before(track, tmp_path):
    for size in (1.0, 2.0):
        track(Script(lambda _, size=size: [size] * 6), shelf=tmp_path / "held").check(())
    assert Shelf(tmp_path / "held").find(Which()).readings.losses[0] == 2.0


def test_what_has_no_room_on_disk_is_held_in_memory(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    full, small = Shelf(tmp_path / "file"), Shelf(tmp_path / "held")
    monkeypatch.setattr(shelf.store, "LARGEST_BYTES", 99)  # else it would be written for nobody
    for each in (full, small):
        each.put(MANY, HELD)
        assert each.find(MANY) == HELD
    assert not (tmp_path / "held").exists()


def test_seeds_that_were_run_before_ctrl_c_are_not_run_again(track, tmp_path):
    def losses(asked):
        if interrupted and asked.seed == 2:
            raise KeyboardInterrupt
        return [1.0 + 0.1 * (asked.seed or 0) + 0.01 * len(asked.changes)] * 6

    script = Script(losses, batch=lambda asked: str(asked.changes))
    ours, interrupted = track(script, shelf=tmp_path / "held"), True
    assert ours.check(wanted("loader")).needs_seeds
    with pytest.raises(KeyboardInterrupt):
        ours.over_seeds(wanted("loader"))
    runs, interrupted = len(script.plans), False
    track(script, shelf=tmp_path / "held").over_seeds(wanted("loader"))
    made = [(len(each.changes), each.seed) for each in script.plans[runs:]]
    assert made == [(1, 0), (1, 2), (0, 1), (0, 2)]
