"""GroupNorm with SiLU, residual and scale-shift around it, in as few passes as it takes.

``group_norm_silu`` is the function and the essay, ``fuse_group_norm`` puts it into a model and
takes it out again; ``silu_rewrite`` is how a model's own SiLU joins the norm before it.
``operator`` is the function as autograd and ``torch.compile`` see it, ``twin`` is plain PyTorch.
``launch`` lays ``kernels`` and ``backward_kernels`` over the chip, ``whole`` does small groups in
one launch. ``shared_norms`` gives tiles the statistics of their whole picture, by
``shared_kernels``.
"""
