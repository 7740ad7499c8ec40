"""Sandbox: what a trial must not touch, and how it is kept from it.

A trial runs the user's script. What it writes goes to a scratch folder that is wiped afterwards.
The script sees these files where it wrote them, and nobody else does. So every trial starts from
the same files.

folders.py          where a trial's own files go, and how they are wiped
overlay.py          a folder that takes what is written, and looks like the disk that it hides
stand_ins.py        how a function of Python is replaced, so that nobody notices
redirect.py         the functions of ``os`` and ``open`` go through the overlay
library_writers.py  likewise, functions of libraries that write in C++ or Rust
written_files.py    what the first run wrote, and what of it went past all this
child_processes.py  what a trial started is ended with it, shared memory included
"""
