"""Work that need not be done again, or not at all.

``batched_calls`` makes one call of several, ``encoded_once`` keeps what a frozen module has
computed, ``weighted`` leaves out a loss term whose weight is zero. ``content`` tells inputs and
weights apart by their bytes, ``results`` takes a module's result apart into tensors.
"""
