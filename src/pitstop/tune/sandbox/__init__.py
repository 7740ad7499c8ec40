"""Sandbox: what a trial must not touch, and how it is kept from it.

A trial runs the user's script. What it writes goes to a scratch folder that is wiped afterwards.
The script sees these files where it wrote them, and nobody else does. So every trial starts from
the same files. What cannot be redirected the kernel refuses.

sandbox.py          the folders and variables of one trial, and its end
folders.py          how its folders are made and wiped
caches.py           what trials may fill: the caches of libraries
enter.py            what the trial's process does before the script's first line
landlock.py         the kernel refuses to write anywhere else
copied_tree.py      imports from the user's tree lead to a copy of it
redirect.py         the functions of ``os`` and ``open`` write to the scratch folder
overlay.py          a folder that takes what is written, and looks like the disk that it hides
stand_ins.py        how a function of Python is replaced, so that nobody notices
library_writers.py  likewise, functions of libraries that write in C++ or Rust
audit.py            the first run notes what it writes past all this, and starts
written_files.py    what the first run wrote, and what of it was refused or escaped
refusals.py         which path a trial was refused to write, told from its complaints
child_processes.py  what a trial started is ended with it, shared memory included
"""
