from dataclasses import replace

import pytest

from diagnose.builders import call, line, operation, recording, without_ledger
from pitstop.core.evidence import DROPOUT, LEARNED_BIAS, Settings
from pitstop.diagnose.rules.attention_unfused import attention_unfused

SCORES = "float32[8,4,64,48]@cpu"


def attention(name="_softmax", position=0, micros=20.0, taken="float32[32,64,48]@cpu"):
    return (
        operation("bmm", line(40), "float32[32,64,16]@cpu float32[32,16,48]@cpu", call=position),
        operation("add", line(41), SCORES, micros=micros / 4, call=position),
        operation(name, line(42), SCORES, micros=micros / 2, call=position),
        operation("_softmax_backward_data", line(42), SCORES, micros=micros / 4, call=position),
        operation("bmm", line(43), f"{taken} float32[32,48,16]@cpu", call=position),
        operation("add", line(44), "float32[8,64,64]@cpu", micros=60 - micros, call=position),
    )


def run(*operations, kind="Attention"):
    return recording(calls=(call("attention", 1, kind=kind),), operations=operations)


def test_names_the_softmax_and_what_the_scores_cost_without_the_products():
    (finding,) = attention_unfused(run(*attention(micros=20.0)))
    assert (finding.code, finding.span.line) == ("PIT604", 42)
    assert finding.saving == pytest.approx(0.25)  # 20 of 80 microseconds, backward included
    assert finding.changes == ("fused-attention",)


@pytest.mark.parametrize("kind", ["Softmax", "Dropout"])
def test_a_softmax_or_dropout_of_its_own_belongs_to_the_attention(kind):
    product, bias, softmax, back, taken, rest = attention(micros=20.0)
    inner = call("attention.inner", 2, parent=0, kind=kind)
    within = [replace(each, call=1) for each in (softmax, back)]
    operations = (product, bias, *within, taken, rest)
    calls = (call("attention", 1, kind="Attention"), inner)
    (finding,) = attention_unfused(recording(calls=calls, operations=operations))
    assert finding.saving == pytest.approx(0.25)


def test_torchs_own_writes_it_out_only_for_its_weights():
    (finding,) = attention_unfused(run(*attention(), kind="MultiheadAttention"))
    assert finding.saving == pytest.approx(0.25)
    assert finding.cure == "need_weights=False, unless somebody reads the weights"
    assert finding.changes == ("no-attention-weights",)


def test_a_call_whose_products_were_too_short_to_be_kept_is_known_by_another():
    whole, rest = attention(micros=20.0), attention(position=1, micros=20.0)[1:4]
    calls = tuple(call("attention", 1, kind="Attention") for _ in range(2))
    (finding,) = attention_unfused(recording(calls=calls, operations=(*whole, *rest)))
    assert finding.saving == pytest.approx(0.4)  # 40 of 100 microseconds
    other = [replace(each, shapes="float32[8,4,64,40]@cpu") for each in rest]
    (finding,) = attention_unfused(recording(calls=calls, operations=(*whole, *other)))
    assert finding.saving == pytest.approx(0.2)


LINEAR = (  # keys and values first: no matrix of tokens x tokens is ever there
    operation("_softmax", line(42), "float32[8,4,32,900]@cpu", micros=20.0, call=0),
    operation("_softmax", line(43), "float32[8,4,32,900]@cpu", micros=20.0, call=0),
    operation("bmm", line(44), "float32[32,32,900]@cpu float32[32,900,32]@cpu", call=0),
    operation("bmm", line(45), "float32[32,32,32]@cpu float32[32,32,900]@cpu", call=0),
    operation(
        *("bmm", line(42), "float32[32,32,32]@cpu float32[32,32,900]@cpu"), call=0, backward=True
    ),
)


@pytest.mark.parametrize(
    "run",
    [
        run(*LINEAR),
        run(*attention(micros=2.0)),
        run(*attention("_safe_softmax")),  # what scaled_dot_product_attention does by itself
        run(*attention(position=-1)),
        run(*attention(taken="float32[32,64,47]@cpu")),  # the product takes something else
        run(*attention()[1:]),  # a classifier's softmax
        run(operation("_softmax", line(42), "", call=0), operation("mm", line(43), "", call=0)),
        recording(operations=attention()),  # where anything was compiled no call is known
        recording(),
        without_ledger(operations=attention()),
    ],
)
def test_quiet(run):
    assert attention_unfused(run) == []


def test_quiet_where_torch_would_write_the_scores_as_well():
    """Shifted windows add a bias that is learned: on a CPU torch's own attention was slower."""
    learned = operation("sum", line(41), SCORES, backward=True, call=0)
    dropped = operation("native_dropout", line(42), SCORES, call=0)
    on_cpu = Settings("cpu", unfused=(LEARNED_BIAS, DROPOUT))
    calls = (call("attention", 1, kind="Attention"),)
    for extra in (learned, dropped):
        made = recording(calls=calls, operations=(*attention(), extra), settings=on_cpu)
        assert attention_unfused(made) == []
        fused = recording(calls=calls, operations=(*attention(), extra))
        assert len(attention_unfused(fused)) == 1
    plain = recording(calls=calls, operations=attention(), settings=on_cpu)
    assert len(attention_unfused(plain)) == 1
