"""Rules about a dataset. One file each: file = function = rule name."""
