"""Try changes on an unedited script, guard its numbers, keep what is proved.

pit_stop.py   the whole story: a first look, what to try, the search, what came of it
handout.py    the files that a user gets: tuned.toml and the patch
search/       what to try next, and what to keep
bench/        one process of the script, in which all that can be switched is tried
inside/       what runs in the script's own process, and what a change may ask of it
guard/        whether the numbers hold: those of twin steps, those of two runs
runs/         fresh processes, for what cannot be switched, and for the proof
sandbox/      what trials may not touch
changes/      one change per file
left_out/     what an edit would bring that leaves out what nobody needs
patch/        what was kept, written into the source
"""
