"""A script that looks at everything a script can look at, and prints it."""

import os
import sys

import torch

print(__name__, __file__, __spec__, sys.argv, sys.path[0], os.getcwd())
print(sorted(name for name in os.environ if "PITSTOP" in name), os.environ.get("PYTHONPATH"))
print([entry for entry in sys.path if "pitstop" in entry and "site" in entry])
print(sys.stdin.readline().strip(), sys.flags.optimize, sys.excepthook is not None)
print(torch.rand(2).tolist() == torch.rand(2).tolist(), torch.initial_seed() != 0)
sys.stdout.flush()
sys.stdout.buffer.write(bytes(range(256)))
sys.stdout.buffer.flush()
sys.exit(7)
