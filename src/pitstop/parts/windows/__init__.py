"""Attention in windows, with a learned bias and masks of shifted windows.

``attention`` is the function and the essay. ``ways`` knows who can compute a call (our kernel,
torch's fused attention, the ``twin`` in plain PyTorch) and measures once which is fastest.
``operator`` is the kernel as autograd and ``torch.compile`` see it, ``launch`` lays it over the
chip, ``kernels`` are the two kernels.
"""
