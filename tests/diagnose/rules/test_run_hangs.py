from diagnose.builders import recording, without_ledger
from pitstop.diagnose.rules.run_hangs import run_hangs

SCRIPT = """\
Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 359 in wait
  File "/usr/lib/python3.12/threading.py", line 1075 in run

Current thread 0x00007f02 (most recent call first):
  File "/env/site-packages/torch/utils/data/dataloader.py", line 1275 in _get_data
  File "/home/me/train.py", line 21 in main
  File "/home/me/train.py", line 40 in <module>
"""
WORKER = """\
Current thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.12/queue.py", line 171 in get
  File "/home/me/data.py", line 33 in __getitem__
  File "/env/site-packages/torch/utils/data/_utils/worker.py", line 349 in _worker_loop
  File "/home/me/train.py", line 21 in main
  File "/home/me/train.py", line 40 in <module>
"""


def test_names_the_line_that_the_script_waits_on():
    (finding,) = run_hangs(without_ledger(stacks=(SCRIPT,)))
    assert (finding.code, finding.severity) == ("PIT115", "error")
    assert (finding.span.path, finding.span.line) == ("/home/me/train.py", 21)
    assert finding.message == (
        "No step was finished: when it was last asked, the script was at train.py:21 in `main`."
    )


def test_the_line_of_its_workers_tells_more():
    (finding,) = run_hangs(without_ledger(stacks=(SCRIPT + WORKER,)))
    assert (finding.span.path, finding.span.line) == ("/home/me/data.py", 33)
    assert "train.py:21, its workers at data.py:33" in finding.message


def test_who_is_still_importing_does_not_hang():
    importing = SCRIPT.replace(
        '  File "/env/site-packages/torch/utils/data/dataloader.py", line 1275 in _get_data\n',
        '  File "/env/site-packages/torch/_dynamo/__init__.py", line 3 in <module>\n'
        '  File "<frozen importlib._bootstrap>", line 1178 in _find_and_load\n',
    )
    assert run_hangs(without_ledger(stacks=(importing,))) == []
    assert run_hangs(without_ledger(stacks=(SCRIPT + importing,))) == []
    (finding,) = run_hangs(without_ledger(stacks=(importing + SCRIPT,)))
    assert finding.cure == "look at what this line works on or waits for"


def test_an_idle_worker_is_not_blamed():
    idle = WORKER.replace('  File "/home/me/data.py", line 33 in __getitem__\n', "")
    (finding,) = run_hangs(without_ledger(stacks=(SCRIPT, idle)))
    assert finding.span.line == 21


def test_the_last_answer_counts():
    later = SCRIPT.replace("line 21", "line 25")
    (finding,) = run_hangs(without_ledger(stacks=(SCRIPT + later,)))
    assert finding.span.line == 25


def test_quiet_where_steps_were_finished_or_nothing_was_said():
    assert run_hangs(recording(stacks=(SCRIPT,))) == []
    assert run_hangs(without_ledger()) == []
    assert run_hangs(without_ledger(stacks=("Fatal error", ""))) == []
