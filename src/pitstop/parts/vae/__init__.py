"""VAEs: their blocks made fast, and how an engine goes through one.

``accelerate_vae`` is the function and the essay. ``blocks`` recognises the blocks of picture VAEs
and has fast ones, ``causal_blocks`` those of causal video VAEs. ``functions`` and ``kernels`` are
what both compute with; ``exchange_trial`` takes back an exchange that gains nothing. ``codecs``
tells the ``stages`` of a VAE, its scale and how it remembers frames; ``middle_attention`` is
attention over a whole large picture.
"""
