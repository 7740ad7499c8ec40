"""What nobody needs: calls that are left out in trials, and the edits of the source that do so.

wanted.py     which calls of the recorded step nobody needs, and how the script's process knows them
calls.py      finds them again in the running script, and hands back stand-ins instead
stand_in.py   a tensor that tells who reads it
real_call.py  what such a call returns, and whether it does anything else
edits.py      the source without them, where that is plain
proved.py     the patched source against the source as it is
"""
