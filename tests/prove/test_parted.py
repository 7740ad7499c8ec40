"""Where two runs part: by gradients of the first step, and by what modules return."""

from pitstop.prove.parted import first_module, gradients_parted
from pitstop.tune.guard.readings import Early, Readings


def early(kind, name, values, step=0):
    return Early(step, kind, name, sum(x * x for x in values) ** 0.5, tuple(values))


def gradients(**named):
    return Readings(early=tuple(early("gradient", name, each) for name, each in named.items()))


BASE = gradients(head=(3.0, 4.0), tail=(0.3, 0.4))


def test_equal_gradients_and_rounding_are_no_difference():
    assert gradients_parted(BASE, BASE, (), "float32") is None
    near = gradients(head=(3.0001, 4.0), tail=(0.3, 0.4001))
    assert gradients_parted(near, BASE, (), "float32") is None


def test_all_gradients_one_percent_longer_are_another_scale():
    longer = gradients(head=(3.03, 4.04), tail=(0.303, 0.404))
    found = gradients_parted(longer, BASE, (), "float32")
    assert (found.quantity, found.step, found.module) == ("gradient", 1, "head")
    assert "1.0 % off" in found.reason


def test_a_small_parameter_without_its_gradient_is_found_though_the_whole_hardly_moves():
    base = gradients(head=(300.0, 400.0), tail=(0.6, 0.8))
    lost = gradients(head=(300.0, 400.0), tail=(0.0, 0.0))
    assert gradients_parted(lost, base, (), "float32").module == "tail"


def test_what_moved_weights_do_to_a_gradient_is_allowed():
    moved = gradients(head=(3.03, 4.04), tail=(0.303, 0.404))
    longer = gradients(head=(3.02, 4.02), tail=(0.302, 0.402))
    assert gradients_parted(longer, BASE, (), "float32")
    assert gradients_parted(longer, BASE, (moved,), "float32") is None


def test_gradients_of_renamed_modules_and_scaled_ones_tell_nothing():
    renamed = gradients(stem=(9.0, 9.0), end=(9.0, 9.0))
    assert gradients_parted(renamed, BASE, (), "float32") is None
    scaled = gradients(head=(3e4, 4e4), tail=(3e3, 4e3))
    assert gradients_parted(scaled, BASE, (), "float16") is None


def test_the_first_module_that_returns_something_else_is_named():
    def returned(second):
        parts = ("Net.head 1 0", (1.0, 2.0)), ("Net.body 1 0", second), ("Net 1 0", second)
        return Readings(early=tuple(early("module", *each) for each in parts))

    base = returned((1.0, 1.0))
    assert first_module(returned((1.0, 1.1)), base, (), 0) == "Net.body"
    assert first_module(returned((1.0, 1.000001)), base, (), 0) == ""
    assert first_module(returned((1.0, 1.1)), base, (returned((1.0, 1.1)),), 0) == ""
    assert first_module(returned((1.0, 1.1)), base, (), 1) == ""  # another step
