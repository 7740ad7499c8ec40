"""What a step needs of a GPU's memory, told before it is run.

``stand_ins`` copies model, optimizer and batch as fake tensors, which have shapes and no bytes.
``step`` takes the step with them; ``on_cuda`` lets it take the ways that it would take on a GPU.
``watch`` writes down each block of memory that is made and freed, with its module and line, and
``workspace`` what operations take inside themselves. ``allocator`` places these blocks as CUDA's
caching allocator would. ``account`` finds the moment of the peak and who holds what in it.
``estimate`` is the part; ``fit`` asks it for the largest batch, resolution or number of frames.
"""
