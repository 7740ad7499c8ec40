"""Guard: whether the numbers of a changed run, or of steps that happened twice, are the same."""
