"""Explosion: when a number of a run has jumped, for rules on the run and on its log alike."""

EXPLOSION = 100.0  # times the median so far; ten is weather
HIGHEST = 10.0  # times the highest so far: a loss near zero has a median of nothing
ENOUGH = 8  # numbers before the first judgement; the first ones of a run are wild
