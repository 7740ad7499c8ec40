"""What is read of a run and moved in it, without a process."""

import json
from array import array
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")

from pitstop.tune.inside import numbers  # noqa: E402
from pitstop.tune.inside.numbers import FIRST_CALLS, Perturbation, is_kept  # noqa: E402
from pitstop.tune.plan import OUTPUTS, VALUES  # noqa: E402


def test_later_calls_are_kept_ever_more_seldom():
    kept = [number for number in range(1000) if is_kept(number)]
    assert kept[: FIRST_CALLS + 3] == [*range(FIRST_CALLS), 16, 18, 20]
    assert 60 < len(kept) < 80
    assert kept[-1] == 960


@dataclass(frozen=True, slots=True)
class Result:
    """What a model may return."""

    spectrum: torch.Tensor
    more: dict
    nothing: None


class Models:
    """Keeps what is put around the calls of models."""

    def around(self, around, functions):
        assert functions
        self.call = around


def outputs(folder, *results):
    """The values that are kept of what two models return in turn."""
    models, both = Models(), (torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))
    numbers.keep_outputs(models, folder, lambda: True)
    for place, result in enumerate(results):
        models.call(lambda result=result: result, both[place % 2])
    index = json.loads((folder / OUTPUTS).read_text())
    return index, array("f", (folder / VALUES).read_bytes())


def test_every_model_is_seen_however_often_another_is_called(tmp_path):
    index, values = outputs(tmp_path, *[torch.zeros(1), torch.ones(1)] * 100)
    assert len(index) == 2 * sum(map(is_kept, range(100)))
    assert set(values) == {0.0, 1.0}


def test_whole_numbers_count_too(tmp_path):
    _, values = outputs(tmp_path, torch.tensor([3, 700]), torch.tensor([True]))
    assert list(values) == [3.0, 700.0, 1.0]


def test_complex_numbers_and_what_a_dataclass_holds_count_too(tmp_path):
    spectrum = torch.tensor([1 + 2j, 3 - 4j]).conj()
    _, values = outputs(tmp_path, Result(spectrum, {"scores": torch.tensor([5.0])}, None))
    assert list(values) == [1.0, -2.0, 3.0, 4.0, 5.0]


def test_samples_meet_every_channel(tmp_path):
    picture = torch.zeros(1, 512, 512, 4)
    picture[..., 3] = 1.0
    _, values = outputs(tmp_path, picture)
    assert 0.2 < sum(values) / len(values) < 0.3


def test_what_only_an_optimizer_holds_is_moved_and_all_else_once():
    layer, free = torch.nn.Linear(4, 4), torch.ones(8, requires_grad=True)
    before = layer.weight.detach().clone()
    optimizer = torch.optim.SGD([*layer.parameters(), free], lr=0.0)
    moved = Perturbation("bfloat16", 1)
    moved.of_optimizer(optimizer)
    optimizer.register_step_pre_hook(lambda *_: None)  # it is not the only one
    moved.of_module(layer)
    for _ in range(2):
        optimizer.step()
    unit = torch.finfo(torch.bfloat16).eps
    for tensor, was in ((free, torch.ones(8)), (layer.weight, before)):
        share = ((tensor.detach() - was) / was).abs()
        assert torch.allclose(share, torch.full_like(share, unit), rtol=1e-3)


def test_generators_that_are_left_to_chance_have_a_seed(monkeypatch):
    np = pytest.importorskip("numpy")
    original = np.random.default_rng
    made = numbers._seeded(3, original)
    first, second = made().random(), made().random()
    assert first != second
    again = numbers._seeded(3, original)
    assert [again().random(), again().random()] == [first, second]
    assert numbers._seeded(4, original)().random() != first
    assert made(7).random() == original(7).random()
