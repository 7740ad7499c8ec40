import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.rules.attention_weights_unused import attention_weights_unused
from pitstop.scan.source import Source

LAYER = """\
from torch import nn
class Layer(nn.Module):
    def __init__(self):
        self.attention = nn.MultiheadAttention(8, 2)
        self.other = Attention(8, 2)
        self.either = nn.MultiheadAttention(8, 2) if x else Attention(8, 2)
    def forward(self, q, k, v):
        {line}
"""


@pytest.mark.parametrize(
    "line",
    [
        "out, weights = self.attention(q, k, v); return out, weights",
        "out, weights = self.attention(q, k, v, need_weights=False); return out",
        "out, weights = self.attention(q, k, v, None, False); return out",
        "out, weights = self.attention(q, k, v, **options); return out",
        "return self.attention(q, k, v)",  # whoever calls may read them
        "pair = self.attention(q, k, v); return pair",
        "out, weights = self.attention(q, k, v); return out, lambda: weights",
        "global weights; out, weights = self.attention(q, k, v)",
        "out, weights = self.attention(q, k, v); weights *= 2",
        "out, weights = self.attention(q, k, v); return out, locals()",
        "print(pair[1]); pair = self.attention(q, k, v); return pair[0]",  # of the round before
        "pair = self.attention(q, k, v); return pair[0], pair[1]",
        "out, _ = self.other(q, k, v); return out",  # not torch's own
        "out, _ = self.either(q, k, v); return out",
        "out, _ = self.missing(q, k, v); return out",
    ],
)
def test_leaves_alone(line):
    assert attention_weights_unused(Source(LAYER.format(line=line))) == []


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        (
            "out = self.attention(q, k, v)[0]",
            "out = self.attention(q, k, v, need_weights=False)[0]",
        ),
        (
            "out, weights = self.attention(q, k, value=v)",
            "out, weights = self.attention(q, k, value=v, need_weights=False)",
        ),
        (
            "pair = self.attention(q, k, v); return pair[0]",
            "pair = self.attention(q, k, v, need_weights=False); return pair[0]",
        ),
    ],
)
def test_fix(line, fixed):
    text = LAYER.format(line=line)
    (finding,) = attention_weights_unused(Source(text))
    assert not finding.fix.safe  # the fused kernel rounds differently
    assert apply_fix(text, finding.fix) == LAYER.format(line=fixed)
    assert attention_weights_unused(Source(LAYER.format(line=fixed))) == []
