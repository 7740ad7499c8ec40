"""Search: what to try next on a script, and what to keep; pure, so that a simulation tests it.

order.py     what there is to try, in which order
numbers.py   whether the numbers of some changes hold, by twins or by fresh runs
search.py    together first, then what each brings, then the rest
proof.py     the untouched script against all that was kept
"""
