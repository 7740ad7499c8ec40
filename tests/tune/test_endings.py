"""What a run that failed has to say for itself."""

from dataclasses import replace
from pathlib import Path

import pytest

import pitstop
from pitstop.compare.record import COMPLAINED, Recording
from pitstop.core.evidence import Evidence
from pitstop.profile.read.runs import About, Run
from pitstop.tune.runs.endings import ending, last_error

OURS = Path(pitstop.__file__).parent


def test_a_compiler_says_on_the_next_line_what_it_is_about():
    lines = [
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in <module>',
        "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:",
        "AssertionError: expected size 128==66",
        "",
        "Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace",
    ]
    assert last_error(lines) == (
        "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised: "
        "AssertionError: expected size 128==66 (train.py:3)"
    )
    assert last_error([*lines[:2], "ValueError:"]) == "ValueError: (train.py:3)"


@pytest.mark.parametrize(
    ("library", "place"),
    [
        ("/env/lib/python3.11/site-packages/torch/nn/modules/conv.py", "(net.py:57)"),
        ("/usr/lib/python3/dist-packages/torch/nn/modules/conv.py", "(net.py:57)"),
        ("/usr/lib/python3.11/runpy.py", "(net.py:57)"),
        ("<frozen runpy>", "(net.py:57)"),
        (f"{OURS}/tune/inside/autocast.py", "(net.py:57)"),
        ("/home/me/pitstop/train.py", "(train.py:9)"),
        ("/env/lib/python3.11/site-packages/pitstop/workloads/tiled_vae/slow.py", "(net.py:57)"),
        (f"{OURS}/workloads/tiled_vae/slow.py", "(slow.py:9)"),
        (f"{OURS}/demo/train.py", "(train.py:9)"),
    ],
)
def test_an_error_comes_with_the_place_in_the_users_own_code(library, place):
    lines = [
        "Traceback (most recent call last):",
        '  File "/home/me/train.py", line 3, in <module>',
        '  File "/home/me/net.py", line 57, in forward',
        "    x = self.conv(x)",
        "        ^^^^^^^^^^^^",
        f'  File "{library}", line 9, in forward',
        "RuntimeError: expected scalar type Float but found BFloat16",
    ]
    assert last_error(lines) == f"{lines[-1]} {place}"


def test_an_assertion_without_words_says_what_it_asserts():
    lines = [
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in <module>',
        "    train()",
        '  File "/models/kernel.py", line 534, in forward',
        "    assert (input.is_contiguous() == True)",
        "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "AssertionError",
    ]
    said = "AssertionError in kernel.py:534: assert (input.is_contiguous() == True)"
    assert last_error(lines) == said
    assert last_error([*lines[:1], "KeyboardInterrupt"]) == "KeyboardInterrupt"
    assert last_error([*lines[:4], "AssertionError"]) == "AssertionError in kernel.py:534"


def test_a_change_that_runs_out_of_memory_while_it_is_applied_says_so(tmp_path):
    said = "pitstop: change channels-last failed: OutOfMemoryError: CUDA out of memory."
    Path(tmp_path, COMPLAINED).write_text(said)
    recording = Recording(tmp_path, Run((), "", 3, exit_code=97), About(), (Evidence(),))
    found = ending(recording, 1.0, 10.0)
    assert found.error == said.removeprefix("pitstop: ")
    assert found.out_of_memory


def test_what_ends_the_script_is_its_own_error_even_where_it_ended_the_recording_first(tmp_path):
    """A fault of the GPU is told to whoever asks next, which may be the recorder."""
    fault = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    said = [
        "pitstop: recording stopped: AcceleratorError: CUDA error: an illegal memory access ...",
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in <module>',
        fault,
        "CUDA kernel errors might be asynchronously reported at some other API call.",
    ]
    Path(tmp_path, COMPLAINED).write_text("\n".join(said))
    died = Recording(tmp_path, Run((), "", 3, exit_code=1), About(), (Evidence(),))
    assert ending(died, 1.0, 10.0).error == f"{fault} (train.py:3)"
    caught = [*said[1:], said[0]]  # an error that ended nothing, and then ours
    Path(tmp_path, COMPLAINED).write_text("\n".join(caught))
    assert ending(died, 1.0, 10.0).error.startswith("recording stopped")
    lived = replace(died, run=replace(died.run, exit_code=0))
    assert ending(lived, 1.0, 10.0).error.startswith("recording stopped")


def test_the_last_traceback_counts_but_not_that_of_a_finaliser():
    lines = [
        "Traceback (most recent call last):",
        '  File "a.py", line 1',
        "RuntimeError: Caught ValueError in DataLoader worker process 0.",
        "Original Traceback (most recent call last):",
        '  File "b.py", line 2',
        "ValueError: too short",
        "Exception ignored in: <function>",
        "Traceback (most recent call last):",
        "AttributeError: no more",
    ]
    assert last_error(lines) == "ValueError: too short"
    assert last_error(["warning", "train.py: error: no --data"]) == "train.py: error: no --data"
    warned = ["no --data", "a.py:3: UserWarning: slow", "  warnings.warn(", ""]
    assert last_error(warned) == "no --data"
    assert not last_error(warned[1:])


def test_what_nobody_caught_in_cpp_is_told_with_the_signal(tmp_path):
    said = [
        "terminate called after throwing an instance of 'c10::OutOfMemoryError'",
        "  what():  CUDA out of memory. Tried to allocate 2.00 GiB",
        "Fatal Python error: Aborted",
        "",
        "Thread 0x00007f01 (most recent call first):",
        '  File "/home/me/log.py", line 8 in write',
        "",
        "Current thread 0x00007f02 (most recent call first):",
        '  File "/env/lib/python3.11/site-packages/torch/_tensor.py", line 623 in backward',
        '  File "/home/me/step.py", line 9 in train',
        '  File "/home/me/train.py", line 4 in <module>',
        "",
        "Extension modules: torch._C (total: 1)",
    ]
    Path(tmp_path, COMPLAINED).write_text("\n".join(said))
    recording = Recording(tmp_path, Run((), "", 3, exit_code=-6), About(), (Evidence(),))
    found = ending(recording, 1.0, 10.0)
    told = "ended by signal 6 (Aborted): CUDA out of memory. Tried to allocate 2.00 GiB"
    assert found.error == f"{told} (step.py:9)"
    assert found.out_of_memory
    thread = [
        "Current thread 0x00007f01 (most recent call first):",
        '  File "/env/lib/python3.11/site-packages/triton/jit.py", line 40 in run',
        '  File "/env/lib/python3.11/site-packages/torch/_tensor.py", line 2 in backward',
    ]
    Path(tmp_path, COMPLAINED).write_text("\n".join(said[2:7] + thread))
    error = ending(recording, 1.0, 10.0).error  # in a thread of the backward pass
    assert error == "ended by signal 6 (Aborted) in jit.py:40"
    first = [
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in f',
        "ValueError: x",
    ]
    Path(tmp_path, COMPLAINED).write_text("\n".join(first + said[2:3]))
    error = ending(recording, 1.0, 10.0).error  # and it crashed on its way out
    assert error == "ended by signal 6 (Aborted), after ValueError: x (train.py:3)"


def test_warnings_are_told_with_the_line_that_they_come_from(tmp_path):
    said = [
        "/home/me/net/decoder.py:71: UserWarning: dsepconv failed (a: b), using the fallback",
        "  warnings.warn(f'dsepconv failed ({error}), using the fallback')",
        " 10%|#   | 1/10 [00:01<00:09]",
        "FutureWarning: of a logger, which names no line",
    ]
    Path(tmp_path, COMPLAINED).write_text("\n".join(said))
    recording = Recording(tmp_path, Run((), "", 3, exit_code=0), About(), (Evidence(),))
    found = ending(recording, 1.0, 10.0)
    assert found.warnings == ("decoder.py:71 warns: dsepconv failed (a: b), using the fallback",)
    assert not found.error
