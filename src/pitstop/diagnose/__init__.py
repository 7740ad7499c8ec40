"""Think about a recorded run: where its steps went, and what is to blame. Needs no torch."""
