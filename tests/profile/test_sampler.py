"""The sampler finds the line that runs, what runs inside it, and whether the script waits."""

import json
import os
import subprocess
import sys
import threading

import pytest

from pitstop.profile.record.sampler import HANDOVER_SECONDS, Sampler


def busy(until):
    while not until():
        sum(range(1000))


def sampled(work, waiting=False, **options):
    """Sample this thread while it works until the sampler has seen enough."""
    ended = threading.Event()
    sampler = Sampler(
        threading.get_ident(), lambda: waiting, at_end=lambda _: ended.set(), **options
    )
    sampler.start()
    work(ended.is_set)
    return sampler.stop()


def test_the_line_and_the_function_inside_it_are_found():
    rows = sampled(busy, waiting=True, enough=20)
    path, line, function, inside, waiting, count = rows[0]
    assert (path, function, waiting) == (__file__, "busy", True)
    assert line in {busy.__code__.co_firstlineno + 1, busy.__code__.co_firstlineno + 2}
    assert inside == "profile/test_sampler.py:busy"
    assert sum(row[-1] for row in rows) == 20
    assert count == max(row[-1] for row in rows)


def test_inside_a_library_the_line_is_still_the_users():
    def encode(until):
        value = [[number] * 9 for number in range(900)]
        while not until():
            "".join(json.JSONEncoder().iterencode(value))  # the line; in Python in every version

    rows = sampled(encode, enough=30)
    inside = {row[3] for row in rows if row[2].endswith("encode")}
    assert any(each.endswith("._iterencode_list") for each in inside)


def test_idle_functions_count_for_nothing():
    def sleep_then_work(until):
        threading.Event().wait(0.05)
        busy(until)

    rows = sampled(sleep_then_work, enough=10, idle=("/threading.py:",))
    assert not any(row[3].endswith("threading.py:wait") for row in rows)
    assert sum(row[-1] for row in rows) == 10


def test_the_lock_is_handed_over_often_and_then_as_before():
    before, during = sys.getswitchinterval(), []

    def work(until):
        busy(lambda: during.append(sys.getswitchinterval()) or until())

    sampled(work, enough=5)
    assert HANDOVER_SECONDS in {round(each, 6) for each in during}
    assert sys.getswitchinterval() == before


FORKS = """
import gc, os, sys, threading, time
from pitstop.profile.record.sampler import Sampler, safe_to_fork
safe_to_fork()
sampler = Sampler(threading.get_ident(), lambda: False)
sampler.start()
time.sleep(0.05)
for _ in range(300):
    child = os.fork()
    if child == 0:
        os._exit(0 if gc.isenabled() and sys.getswitchinterval() == 0.005 else 1)
    if os.waitpid(child, 0)[1]:
        sys.exit("a child is not as its parent was")
sampler.stop()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_fork_inherits_nothing_of_the_sampling():
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
