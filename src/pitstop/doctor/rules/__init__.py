"""Rules about the machine. One file each: file = function = rule name."""
