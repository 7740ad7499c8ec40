"""NaN guard: no step is taken with gradients that are not finite.

``guard`` is the part itself: hooks around the steps of optimizers. ``finite`` asks on the device
whether gradients are finite, and ``answers`` reads what it said without waiting for the GPU.
``withheld`` lets a step pass without any effect. ``snapshot`` keeps weights to go back to.
"""
