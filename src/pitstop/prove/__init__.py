"""Prove: whether an edit of the source is faster than its base, and computes the same.

proof.py     the whole story: two trees, the numbers, the time, the verdict
trees.py     the base revision and the edit, each in a folder of its own
git.py       what we ask of git, which changes nothing in the user's repository
sides.py     fresh processes of either side
numbers.py   whether the numbers of the edit are those of the base
parted.py    where the two part first: a step, a gradient, a module
verdict.py   better, worse, same, drifted or inconclusive
story.py     the same as a Report
"""
