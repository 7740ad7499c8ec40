"""Patch: what was kept, written into the source; `permanent/` has the edit of each change."""
