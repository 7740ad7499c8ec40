import pytest

from pitstop.scan.rules.attention_unfused import attention_unfused
from pitstop.scan.source import Source

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import einsum, nn\n"


def found_in(body, head=HEAD):
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    return attention_unfused(Source(f"{head}def attend(self, q, k, v):\n{indented}\n"))


@pytest.mark.parametrize(
    "body",
    [
        "return F.softmax(logits, dim=-1) @ v",  # no scores of queries and keys
        "return F.softmax(q @ k.mT, dim=-1)",  # a similarity, not attention
        "w = F.softmax(q @ k.mT, dim=-1)\nreturn w @ v, w",  # somebody reads the weights
        "w = F.softmax(q @ k.mT, dim=-1)\nself.weights = w\nreturn w @ v",
        "w = F.softmax(q @ k.mT, dim=-1)\nself.save_attention_map(w)\nreturn w @ v",
        "w = F.softmax(q @ k.mT, dim=-1)\nout = w @ v\nreturn (out, w) if show else (out,)",
        "w = F.softmax(q @ k.mT, dim=-1)\nw = w * head_mask\nreturn w @ v",
        "if fast:\n    return F.scaled_dot_product_attention(q, k, v)\n"
        "return F.softmax(q @ k.mT, dim=-1) @ v",
        # Channels attend to channels: one head is as wide as the picture.
        "q = rearrange(q, 'b (head c) h w -> b head c (h w)', head=4)\n"
        "return (q @ k.transpose(-2, -1)).softmax(-1) @ v",
        "context = F.softmax(k, dim=-1) @ v.mT\nreturn context @ q",  # linear attention
        # Stereo: both directions share the scores, and fused ones would compute them twice.
        "s = q @ k.mT\na = torch.matmul(torch.softmax(s, -1), v)\n"
        "return a, torch.matmul(torch.softmax(s.permute(0, 2, 1), -1), v)",
    ],
)
def test_leaves_alone(body):
    assert found_in(body) == []


@pytest.mark.parametrize(
    "body",
    [
        "return F.softmax(q @ k.transpose(-2, -1) * self.scale, dim=-1) @ v",
        "w = torch.matmul(q, k.mT)\nw = w + bias\nw = F.softmax(w, dim=-1)\n"
        "w = self.drop(w)\nreturn torch.matmul(w, v)",
        "w = einsum('b i d, b j d -> b i j', q, k)\nw = w.softmax(dim=-1)\n"
        "return einsum('b i j, b j d -> b i d', w, v)",
        "w = torch.bmm(q, k)\nw = w * 0.1\nw = F.softmax(w, dim=2)\nw = w.permute(0, 2, 1)\n"
        "return torch.bmm(v, w)",
        "w = torch.einsum('bct,bcs->bts', q, k)\nw = torch.softmax(w.float(), -1).type(w.dtype)\n"
        "return torch.einsum('bts,bcs->bct', w, v)",
        "w = q @ k.mT\nif mask is None:\n    w = self.softmax(w)\nelse:\n"
        "    w = self.softmax(w + mask)\nreturn (w @ v).transpose(1, 2)",
        "w = q.matmul(k.mT)\nw = nn.Softmax(dim=-1)(w)\nreturn w.matmul(v)",
    ],
)
def test_finds_once(body):
    (finding,) = found_in(body)
    assert (finding.code, finding.confidence) == ("PIT604", "suspected")


def test_quiet_where_a_fused_kernel_is_there_to_choose_but_not_in_the_whole_file():
    written = "return (q @ k.mT).softmax(-1) @ v"
    choice = "if FAST:\n    return memory_efficient_attention(q, k, v)\n"
    head = HEAD + "from xformers.ops import memory_efficient_attention\n"
    assert found_in(choice + written, head) == []
    assert len(found_in(written, head)) == 1


def test_quiet_where_the_weights_are_used_twice():
    assert found_in("w = (q @ k.mT).softmax(-1)\nreturn w @ v, w @ positions") == []
    assert found_in("w = (q @ k.mT).softmax(-1)\nx = w @ v\nreturn x @ x") != []


def test_points_at_the_softmax():
    (finding,) = found_in("s = q @ k.mT\nw = s.softmax(-1)\nreturn w @ v")
    assert finding.span.line == 6
