"""Bench: one process of the unedited script, in which all that can be switched is tried.

bench.py      what a search may ask, and the processes that answer
process.py    the parent's side of one of them, from its start to its end
questions.py  what is asked and answered over their connection
child.py      the script's side: it asks what to do, and times blocks of steps
twin_steps.py a step happens twice; twin_calls.py: each call of a model does
passes.py     the second pass: its seed, weights moved by a hair, its peak
switches.py   the changes, on and off between two steps
doubling.py   loaders hand out the batches of a step twice
outside.py    batches that come from no loader are the same twice, too
state.py      all that a step changes, kept and put back
watching.py   what one pass of a step computes
distances.py  how far the second pass is from the first
"""
