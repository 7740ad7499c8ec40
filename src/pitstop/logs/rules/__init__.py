"""Rules about the log of a run. One file each: file = function = rule name."""
