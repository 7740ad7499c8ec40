"""Which operation launched a kernel."""

import pytest
import torch
from torch.autograd import profiler

from pitstop.profile.inspect.kernels import Seen, _events, kernels, operations_by_caller, waits
from pitstop.profile.inspect.watch import RANGE


def on_host(name, start, end, number, caller=0, thread=1):
    return Seen(name, True, thread, start, end, number, caller)


def on_device(name, start, end, caller):
    return Seen(name, False, 0, start, end, 900 + start, caller)


STEP = [
    on_host("optimizer", 0, 1000, 1),
    on_host(f"{RANGE}7", 10, 100, 2),
    on_host("aten::add", 20, 90, 3),
    on_host("cudaLaunchKernel", 30, 40, 50, caller=3),
    on_host("cudaStreamSynchronize", 50, 60, 51, caller=3),
    on_host(f"{RANGE}8", 100, 200, 4),
    on_host(f"{RANGE}None", 300, 400, 5),
    on_host("aten::mul", 310, 390, 6),
    on_host("aten::mm", 20, 90, 7, thread=2),
    on_host("aten::sum", 410, 450, 8),
    on_host("cudaStreamSynchronize", 420, 440, 53, caller=8),
    on_host("cudaDeviceSynchronize", 460, 470, 54),
    on_host(f"{RANGE}9", 480, 490, 9),
    on_host("cudaStreamSynchronize", 482, 488, 55, caller=9),
    on_host("cudaDeviceSynchronize", 500, 600, 52),
    on_device("add_kernel", 300, 400, caller=3),
    on_device(f"{RANGE}7", 300, 400, caller=2),
    on_device("optimizer", 300, 900, caller=1),
    on_device("Memcpy HtoD (Pageable -> Device)", 400, 500, caller=3),
]


def test_an_operation_belongs_to_the_nearest_range_around_it_in_its_thread():
    assert operations_by_caller(STEP) == {2: 7, 3: 7, 4: 8, 9: 9}


def test_transfers_and_the_shadows_of_ranges_are_no_kernels():
    assert [kernel.name for kernel in kernels(STEP)] == ["add_kernel"]


def test_waits_are_those_of_the_scripts_operations_and_its_own_but_not_ours_within_or_at_the_end():
    assert waits(STEP, operations_by_caller(STEP)) == [7, None, 9]


def parents(event):
    while event is not None:
        yield event
        event = event.cpu_parent


@pytest.mark.parametrize("nested", [False, True])
def test_agrees_with_the_tree_that_torch_builds(nested):
    weight = torch.randn(8, 8, requires_grad=True)
    with profiler.profile(use_kineto=True) as profile:
        for number in range(5):
            with profiler.record_function(f"{RANGE}{number}"):
                loss = (weight @ weight).square().mean()
                if nested:
                    with profiler.record_function(f"{RANGE}{number + 100}"):
                        loss = loss.exp() + loss
            loss.backward()
    found = operations_by_caller(list(_events(profile)))
    assert len(set(found.values())) == (10 if nested else 5)
    for event in profile.function_events:
        around = [each.name for each in parents(event) if each.name.startswith(RANGE)]
        assert found.get(event.id) == (int(around[0].removeprefix(RANGE)) if around else None)
