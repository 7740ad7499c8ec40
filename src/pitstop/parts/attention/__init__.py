"""Attention that is written out in the source of a model, computed by whoever is fastest.

``fuse`` finds the functions of a model and gives them other code, and takes it away again.
``pattern`` is where the code comes from: it reads a function's source, and only the product of
queries and keys becomes another call. ``scores`` is what that call returns: scores that are not
computed until it is known what becomes of them. ``equation`` reads products by ``einsum``.
"""

from pitstop.parts.attention.fuse import fuse_attention

__all__ = ["fuse_attention"]
