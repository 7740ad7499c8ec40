"""What an edit may do less of without computing something else."""

from pitstop.prove.sides import without_repeats
from pitstop.tune.guard.readings import Output, Readings
from pitstop.tune.guard.verdict import Untouched, guard


def output(value, module="Encoder"):
    from array import array

    return Output(module, (1, 4), array("f", [value] * 4).tobytes())


def held(ours, base):
    return guard("rounding", without_repeats(ours), Untouched(without_repeats(base)))


def test_a_script_may_print_less_and_call_its_models_less():
    base = Readings(losses=(1.0, 0.5), lines=40, calls=16)
    assert held(Readings(losses=(1.0, 0.5), lines=0, calls=4), base).ok


def test_calls_that_return_the_same_again_may_be_left_out_and_others_not():
    first, second, third = map(output, (1.0, 2.0, 3.0))
    base = Readings(outputs=(first, second, first, third, first))
    assert held(Readings(outputs=(first, second, third)), base).ok
    assert "2 outputs instead of 3" in held(Readings(outputs=(first, second)), base).reason
    assert not held(Readings(outputs=(first, third, second)), base).ok
