"""What a run that failed has to say for itself."""

from pitstop.tune.endings import last_error


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
        "AssertionError: expected size 128==66"
    )
    assert last_error([*lines[:2], "ValueError:"]) == "ValueError:"
