"""Try changes on an unedited script, guard its numbers, keep what is proved.

pit_stop.py   the whole story: a first look, what to try, the search, what came of it
search/       what to try next, and what to keep
bench/        one process of the script, in which all that can be switched is tried
twins.py      whether the numbers of steps that happened twice are the same
runs/         fresh processes, for what cannot be switched, and for the proof
sandbox/      what trials may not touch
changes/      one change per file; permanent/ writes each into the source
script.py     what a change may ask of the running script
"""
