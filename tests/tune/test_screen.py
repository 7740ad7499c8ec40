"""What a search says while it runs: on a real terminal, and in a log."""

import os
import pty
import subprocess
import sys
import textwrap

SCRIPT = textwrap.dedent("""
    import time
    from pitstop.core.trial import Trial
    from pitstop.tune.screen import screen

    with screen() as shown:
        shown.say("to try: tf32")
        shown.doing("tf32 (1 of 1)")
        shown.running("tf32, its numbers (75 s left)")
        time.sleep(0.3)
        shown.doing("the proof")
        time.sleep(0.3)
        shown.tried(Trial("tf32", "not-faster", note="slower"))
""")


def test_a_log_has_no_line_for_each_run():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True
    )
    assert done.stderr.splitlines() == [
        "to try: tf32",
        "tf32 (1 of 1)",
        "the proof",
        "  tf32: not-faster (slower)",
    ]


def test_a_terminal_tells_which_run_it_waits_for_and_keeps_only_what_was_found():
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stderr=theirs, env=environment) as run:
        os.close(theirs)
        heard = b""
        while part := _read(ours):
            heard += part
    os.close(ours)
    assert run.returncode == 0
    text = heard.decode()
    assert "tf32 (1 of 1): tf32, its numbers (75 s left)" in text
    assert "the proof: " not in text
    assert text.index("the proof") < text.index("tf32: not-faster (slower)")


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # nobody writes to it any more
        return b""
