"""Work that is not done again, or not at all: the numbers stay what they were."""

from collections import namedtuple
from itertools import pairwise

import pytest
import torch
from diffusers import AutoencoderKL
from torch import nn
from transformers import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel

from pitstop.core.errors import PitstopError
from pitstop.parts import batched, encoded_once, reused, weighted
from pitstop.parts.reuse.content import digest_of, digest_of_weights

Pair = namedtuple("Pair", "low high")


class Counted(nn.Module):
    def __init__(self, *modules):
        super().__init__()
        self.inside = nn.Sequential(*modules)
        self.calls = 0

    def forward(self, x, scale=1.0):
        self.calls += 1
        y = self.inside(x) * scale
        return {"all": y, "pair": Pair(y[:, :1], [y * 2])}


def frames(count=3, size=2):
    torch.manual_seed(0)
    return [torch.rand(size, 3, 8, 8) for _ in range(count)]


def encoder():
    torch.manual_seed(1)
    return Counted(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.Conv2d(4, 4, 3))


# Weighted terms


def test_a_term_of_weight_zero_is_not_computed_and_the_sum_is_the_same():
    loss = torch.rand(3, requires_grad=True).sum()
    assert (loss + weighted(0.0, lambda: 1 / 0)) == loss
    assert (loss + weighted(torch.tensor(0), lambda: 1 / 0)) == loss


def test_gradients_are_those_of_the_whole_sum():
    first, second = (nn.Linear(3, 1) for _ in range(2))
    second.load_state_dict(first.state_dict())
    x = torch.rand(5, 3)

    def term():
        return second(x).square().sum()

    for factor in (0.0, 0.3):
        first.zero_grad()
        second.zero_grad()
        (first(x).mean() + factor * first(x).square().sum()).backward()
        (second(x).mean() + weighted(factor, term)).backward()
        assert first.weight.grad.equal(second.weight.grad)


def test_a_learned_weight_is_always_computed():
    weight = torch.zeros((), requires_grad=True)
    weighted(weight, lambda: torch.tensor(3.0)).backward()
    assert weight.grad == 3


# Batched calls


def test_one_call_gives_what_several_gave():
    module = encoder()
    inputs = frames()
    alone = [module(each, scale=0.5) for each in inputs]
    module.calls = 0
    together = batched(module)(*inputs, scale=0.5)
    assert module.calls == 1
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one["all"], other["all"])
        assert type(other["pair"]) is Pair
        torch.testing.assert_close(one["pair"].high[0], other["pair"].high[0])


def test_batches_of_several_lengths_come_back_in_their_lengths():
    results = batched(encoder())(torch.rand(1, 3, 8, 8), torch.rand(4, 3, 8, 8))
    assert [len(each["all"]) for each in results] == [1, 4]


def test_gradients_go_to_each_input():
    module, inputs = encoder(), [each.requires_grad_() for each in frames(2)]
    first, second = batched(module)(*inputs)
    (first["all"].sum() + 2 * second["all"].sum()).backward()
    stacked = inputs[1].grad
    alone = frames(2)[1].requires_grad_()
    (2 * module(alone)["all"].sum()).backward()
    torch.testing.assert_close(stacked, alone.grad)


@pytest.mark.parametrize(
    ("module", "inputs", "words"),
    [
        (nn.BatchNorm2d(3), frames(), "takes the statistics of its batch"),
        (
            nn.BatchNorm2d(3, track_running_stats=False).eval(),
            frames(),
            "takes the statistics of its batch",
        ),
        (encoder(), [torch.rand(1, 3, 8, 8), torch.rand(1, 3, 9, 8)], "one call takes one shape"),
        (lambda x: x.sum(), frames(), "its first axis is not the batch"),
        (lambda x: object(), frames(), "a object among the results"),
    ],
)
def test_batched_refuses_in_one_line(module, inputs, words):
    with pytest.raises(PitstopError, match=words):
        batched(module)(*inputs)


def test_batch_norm_in_evaluation_is_stacked():
    module = nn.BatchNorm2d(3).eval()
    inputs = frames()
    for one, other in zip(map(module, inputs), batched(module)(*inputs), strict=True):
        torch.testing.assert_close(one, other)


def test_a_frame_of_the_pair_before_is_not_encoded_again():
    module = encoder().eval()
    encode = reused(module)
    film = frames(5)
    with torch.no_grad():
        for before, after in pairwise(film):
            assert encode(before)["all"].equal(module.forward(before)["all"])
            encode(after)
        assert module.calls - 4 == 5  # forward was called four times by the test itself
        film[-1].mul_(2)  # another picture in the same tensor
        calls = module.calls
        encode(film[-1])
        assert module.calls == calls + 1


def test_features_are_not_reused_where_gradients_are_recorded():
    with pytest.raises(PitstopError, match="without gradients only"):
        reused(encoder())(frames()[0])


def test_features_are_not_reused_where_nobody_counts_what_is_written():
    with torch.inference_mode():
        frame = torch.zeros(1, 3, 8, 8)
        with pytest.raises(PitstopError, match="inference mode"):
            reused(encoder().eval())(frame)


# Encoded once


def text_encoder():
    torch.manual_seed(2)
    config = CLIPTextConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        vocab_size=99,
    )
    return CLIPTextModel(config).eval()


def test_a_text_encoder_runs_once_for_each_caption():
    module = text_encoder()
    tokens = torch.randint(0, 99, (2, 7))
    mask = torch.ones_like(tokens)
    encode = encoded_once(module)
    first = encode(tokens, attention_mask=mask)
    again = encode(tokens.clone(), attention_mask=mask.clone())
    with torch.no_grad():
        plain = module(tokens, attention_mask=mask)
    assert type(again) is type(plain)
    assert again.last_hidden_state.equal(plain.last_hidden_state)
    assert again.pooler_output.equal(first.pooler_output)
    encode(tokens, attention_mask=mask * 0)
    assert (encode.hits, encode.misses) == (1, 2)
    again.last_hidden_state.zero_()  # the user may write into what he got
    assert encode(tokens, attention_mask=mask).last_hidden_state.equal(plain.last_hidden_state)


def test_results_of_t5_outlive_the_process_and_serve_these_weights_only(tmp_path):
    config = T5Config(d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, vocab_size=99)
    torch.manual_seed(3)
    module = T5EncoderModel(config).eval().bfloat16()
    tokens = [torch.full((1, 5), each) for each in range(4)]
    before = [encoded_once(module, folder=tmp_path)(each) for each in tokens]
    later = encoded_once(module, folder=tmp_path)
    found = [later(each) for each in tokens]
    assert (later.hits, later.misses) == (3, 1)  # the first tells what a result looks like
    assert all(
        one.last_hidden_state.equal(other.last_hidden_state)
        for one, other in zip(before, found, strict=True)
    )
    next(module.parameters()).data[0, 0] += 1
    other = encoded_once(module, folder=tmp_path)
    other(tokens[0])
    other(tokens[1])
    assert other.hits == 0


def test_a_damaged_file_is_computed_again(tmp_path):
    module = text_encoder()
    tokens = torch.randint(0, 99, (3, 1, 7))
    for each in tokens:
        encoded_once(module, folder=tmp_path)(each)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            content = bytearray(path.read_bytes())
            content[-1] ^= 1
            path.write_bytes(content)
    later = encoded_once(module, folder=tmp_path)
    for each in tokens:
        later(each)
    assert later.hits == 0


def test_latents_are_kept_as_a_distribution_so_that_sampling_stays_random():
    torch.manual_seed(4)
    vae = AutoencoderKL(
        block_out_channels=(8, 8),
        norm_num_groups=2,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    ).eval()
    picture = torch.rand(1, 3, 16, 16)
    encode = encoded_once(vae, "encode")
    first = encode(picture).latent_dist
    again = encode(picture).latent_dist
    with torch.no_grad():
        plain = vae.encode(picture).latent_dist
    assert encode.hits == 1
    assert again.mean.equal(plain.mean)
    assert again.std.equal(plain.std)
    assert not again.sample().equal(again.sample())
    assert first.mode().equal(plain.mode())


def test_what_does_not_fit_the_budget_is_computed_each_time():
    encode = encoded_once(text_encoder(), budget_bytes=10)
    tokens = torch.randint(0, 99, (2, 7))
    encode(tokens)
    encode(tokens)
    assert (encode.hits, encode.misses) == (0, 2)
    assert repr(encode) == "EncodedOnce(CLIPTextModel: 0 results, 0 B)"


def test_a_released_module_answers_what_it_knows():
    encode = encoded_once(text_encoder())
    tokens = torch.randint(0, 99, (2, 7))
    encode(tokens, key="a caption")
    encode.release()
    assert encode(tokens * 0, key="a caption").last_hidden_state.shape == (2, 7, 16)
    with pytest.raises(PitstopError, match="was released, and these inputs were never encoded"):
        encode(tokens)


def test_a_module_in_training_and_inputs_with_gradients_are_refused():
    module = text_encoder()
    encode = encoded_once(module)
    module.train()
    with pytest.raises(PitstopError, match="is in training mode"):
        encode(torch.zeros(1, 3, dtype=torch.long))
    with pytest.raises(PitstopError, match="an input needs a gradient"):
        encoded_once(nn.Linear(3, 3).eval())(torch.rand(2, 3, requires_grad=True))


def test_rows_are_known_in_any_order_and_beside_any_others():
    module = text_encoder()
    captions = torch.randint(0, 99, (5, 7))
    encode = encoded_once(module, rows=True)
    encode(captions[:3])
    found = encode(captions[[4, 2, 0, 4]])
    assert (encode.hits, encode.misses) == (3, 4)  # twice in one batch is once
    encode(captions[:1], attention_mask=torch.zeros(1, 7))
    assert encode.misses == 5  # another mask, another question
    with torch.no_grad():
        plain = module(captions[[4, 2, 0, 4]])
    assert type(found) is type(plain)
    torch.testing.assert_close(found.last_hidden_state, plain.last_hidden_state)
    torch.testing.assert_close(found.pooler_output, plain.pooler_output)


def test_rows_of_lists_and_keys_outlive_the_module():
    class Words(nn.Module):
        def forward(self, words):
            return torch.tensor([[float(len(each))] for each in words])

    encode = encoded_once(Words().eval(), rows=True)
    assert encode(["a", "bbb"]).tolist() == [[1], [3]]
    encode(["cc"], key=["two"])
    encode.release()
    assert encode(["bbb", "a", "a"]).tolist() == [[3], [1], [1]]
    assert encode(["?"], key=["two"]).tolist() == [[2]]


def test_rows_are_read_from_the_folder(tmp_path):
    module, tokens = text_encoder(), torch.randint(0, 99, (4, 7))
    before = encoded_once(module, rows=True, folder=tmp_path)(tokens)
    later = encoded_once(module, rows=True, folder=tmp_path)
    later(tokens[:1])
    found = later(tokens.flip(0))
    assert (later.hits, later.misses) == (4, 1)
    assert found.last_hidden_state.equal(before.last_hidden_state.flip(0))


def test_results_come_to_where_the_module_computes_though_its_inputs_are_words():
    class Words(nn.Module):
        def forward(self, words):
            return torch.ones(len(words), device="meta")

    encode = encoded_once(Words().eval(), on="meta")
    assert {encode(["a"]).device.type for _ in range(2)} == {"meta"}
    assert encode.hits == 1


@pytest.mark.parametrize(
    "change", [lambda _, weight: weight.detach().add_(1), lambda module, _: module.double()]
)
def test_weights_that_change_are_refused_and_a_move_is_not(change):
    module = text_encoder()
    encode = encoded_once(module)
    tokens = torch.randint(0, 99, (2, 7))
    encode(tokens)
    weight = next(module.parameters())
    weight.data = weight.data.clone()
    encode(tokens)
    change(module, weight)
    with pytest.raises(PitstopError, match="the weights of CLIPTextModel have changed since"):
        encode(tokens)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: encoded_once(len), "takes a module, not a builtin"),
        (lambda: encoded_once(nn.Linear(1, 1).eval(), "encode"), "Linear has no method 'encode'"),
        (lambda: encoded_once(nn.Identity().eval(), rows=True)(3), "needs a tensor or a list"),
        (
            lambda: encoded_once(nn.Identity().eval(), rows=True)(torch.ones(2), key="a"),
            "a name for each of 2 rows",
        ),
        (
            lambda: encoded_once(nn.BatchNorm1d(2, track_running_stats=False).eval(), rows=True),
            "takes the statistics of its batch",
        ),
    ],
)
def test_encoded_once_refuses_in_one_line(ask, words):
    with pytest.raises(PitstopError, match=words):
        ask()


def test_a_digest_tells_values_types_and_orders_apart():
    values = [
        torch.zeros(4), torch.zeros(2, 2), torch.zeros(4, dtype=torch.float64), [1, 2], [2, 1],
        [[1], 2], {"a": 1}, {"b": 1}, "1", 1, 1.0, None, b"1", True, torch.zeros(0),
    ]  # fmt: skip
    assert len({digest_of(each) for each in values}) == len(values)
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})


def test_a_digest_of_weights_sees_order_and_sign():
    layers = [nn.Linear(2, 1, bias=False) for _ in range(3)]
    for layer, weights in zip(layers, ([1.0, 2.0], [2.0, 1.0], [-1.0, 2.0]), strict=True):
        layer.weight.data.copy_(torch.tensor([weights]))
    assert len({digest_of_weights(each) for each in layers}) == 3
