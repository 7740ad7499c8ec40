"""A dataset in memory, once for all processes of a machine.

``ram_cache`` reads every sample once, in parallel, and packs it into one block of shared memory.
``packing`` turns a sample into bytes and back. ``shared_memory`` is the block: anonymous memory
that other processes open through its owner, so that nothing is left when all of them have died.
"""
