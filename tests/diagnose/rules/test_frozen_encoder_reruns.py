import pytest

from diagnose.builders import call, loader, recording, without_ledger, work
from pitstop.core.ledger import Ledger, Row
from pitstop.diagnose.rules.frozen_encoder_reruns import frozen_encoder_reruns

IDS = "int64[4,77]@cpu"
CLIPS = loader(length=96)


def run(*calls, micros=20.0, loaders=(CLIPS,)):
    operations = *(work(micros / len(calls), place) for place in range(len(calls))), work(80)
    calls = *calls, call("Transformer", 109, parameters=100_000)
    return recording(calls=calls, operations=operations, loaders=loaders, step_kind="optimizer")


def encoder(**more):
    return call("TextModel", 88, **{"shapes": IDS, "frozen": True} | more)


def test_tokens_of_a_dataset_that_ends_are_a_suspicion():
    (finding,) = frozen_encoder_reruns(run(encoder()))
    assert (finding.code, finding.span.line) == ("PIT608", 88)
    assert (finding.confidence, finding.saving) == ("suspected", pytest.approx(0.20))
    assert finding.message == (
        "`TextModel` is frozen and reads tokens of a dataset of 96 samples, and takes 20.0 ms of "
        "100 ms."
    )


def test_without_the_times_of_kernels_no_cost_is_told():
    made = run(encoder(parameters=100_000))
    made.__dict__["ledger"] = Ledger(100.0, "cuda", (Row("unseen", 100.0),), floor_known=False)
    (finding,) = frozen_encoder_reruns(made)
    assert finding.message.endswith("is frozen and reads tokens of a dataset of 96 samples.")
    assert (finding.saving, finding.severity) == (None, "note")


def test_the_same_content_twice_is_certain():
    same = {"shapes": "float32[4,3,8,8]@cpu", "content": "ab12"}
    (finding,) = frozen_encoder_reruns(run(encoder(**same), encoder(**same), loaders=()))
    assert finding.confidence == "measured"
    assert "gets the same input 2 times a step" in finding.message


def test_the_same_content_in_two_steps_is_certain():
    same = {"shapes": "float32[4,3,8,8]@cpu", "content": "ab12", "again": True}
    (finding,) = frozen_encoder_reruns(run(encoder(**same), loaders=()))
    assert finding.confidence == "measured"
    assert "gets the same input again from step to step" in finding.message


def test_a_quick_encoder_that_takes_much_memory_is_a_note():
    (finding,) = frozen_encoder_reruns(run(encoder(parameters=5000), micros=0.5))
    assert finding.severity == "note"


@pytest.mark.parametrize(
    "run",
    [
        run(encoder(frozen=False)),
        run(encoder(graph=True)),  # its result is differentiated: a loss network on a prediction
        run(encoder(shapes="float32[4,3,64,64]@cpu", content="ab12")),  # may be augmented
        run(encoder(), loaders=()),
        run(encoder(), loaders=(loader(length=None),)),
        run(encoder(), micros=0.5),
        run(call("model", 1), encoder(parent=0)),
        recording(),
        without_ledger(calls=(encoder(),)),
    ],
)
def test_quiet(run):
    assert frozen_encoder_reruns(run) == []
