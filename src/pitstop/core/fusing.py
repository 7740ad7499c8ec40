"""Fusing: which optimizers torch updates in one pass, for rules that import no torch."""

FUSABLE = {  # the first torch that does it on a GPU
    "Adam": (1, 13),
    "AdamW": (2, 0),
    "SGD": (2, 3),
}
ON_A_CPU = (2, 4)  # the first torch that does it there too
