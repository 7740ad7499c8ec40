"""A VAE on pictures and clips larger than memory, in tiles that do not show.

``tiled_vae`` is the engine and the essay, ``tiling`` is what a user may ask of it. ``stage_costs``
measures what each stage needs (``costs``), ``plan`` finds the fewest ``tiles`` that fit, ``batch``
tries several at once. ``run`` sends a picture through by the plan: ``strips`` of rows where that is
exact, else tiles that ``sampling`` gives norms for and ``blend`` puts together. ``quality`` tells
whether seams show.
"""
