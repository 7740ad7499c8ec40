import pytest

from pitstop.core.secrets import is_masked, masked_source, masked_text, masked_words

SECRET = "hf_Zx81kQ"


@pytest.mark.parametrize(
    "words",
    [
        ["train.py", "--hf-token", SECRET],
        ["train.py", f"--hf-token={SECRET}"],
        ["train.py", f"--hf_token={SECRET} with=more", "x"],
        ["train.py", "--wandb-key", SECRET],
        ["train.py", "-password", SECRET],
        ["train.py", "--hftoken", SECRET],
        ["train.py", "--aws-secret-access-key", SECRET],
        ["train.py", "--secret-id", SECRET],
        ["train.py", "--apiKey", SECRET],
        ["train.py", f"model.hub.token={SECRET}"],
        ["train.py", f"+logger.api_key={SECRET}"],
        ["env", f"HF_TOKEN={SECRET}", "python", "train.py"],
        ["train.py", "--data", f"https://me:{SECRET}@host/x.tar"],
        ["train.py", "--data", f"https://{SECRET}@host/x.tar"],
        ["train.py", "--data", f"s3://host/x.tar?part=1&token={SECRET}&x=2"],
        ["train.py", "--extra", f'{{"lr": 1, "api_key": "{SECRET}"}}'],
        ["train.py", "--header", f"Authorization: Bearer {SECRET}"],
        ["train.py", "--header", f"Authorization: Basic {SECRET}"],
        ["train.py", "--env", f"WANDB_API_KEY:{SECRET}"],
        ["train.py", "--pw", SECRET],
        ["bash", "-c", f"HF_TOKEN={SECRET} python train.py --lr 1"],
        ["bash", "-c", f"python train.py --token {SECRET} --lr 1"],
    ],
)
def test_a_value_is_masked_where_its_name_says_that_it_is_a_secret(words):
    masked = masked_words(words)
    assert SECRET not in " ".join(masked)
    assert len(masked) == len(words)
    assert is_masked(masked)
    assert SECRET not in masked_text(" ".join(words))
    assert masked_words(masked) == masked


@pytest.mark.parametrize(
    "words",
    [
        ["train.py", "--tokenizer", "gpt2", "--num-tokens", "77", "--max_tokens=512"],
        ["train.py", "--key-frames", "4", "--keyframes=4", "--monkey", "x", "--turkey=y"],
        ["train.py", "--use-auth-token", "--lr", "1e-4"],
        ["train.py", "git+ssh://git@host/x", "a@b.c", "x==y", "--token"],
        ["train.py", "--glob", "***"],
        ["-m", "mypackage.keys", "configs/token.yaml", "data:/x"],
        [],
    ],
)
def test_everything_else_stays(words):
    assert masked_words(words) == tuple(words)
    assert not is_masked(words)


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ('token = "hf_abcdefgh"', 'token = "***"'),
        ('    os.environ["HF_TOKEN"] = "hf_abcdefgh"', '    os.environ["HF_TOKEN"] = "***"'),
        ("login(api_key='abc-def-ghi', x=1)", "login(api_key='***', x=1)"),
        ('{"password": "correct horse"}', '{"password": "***"}'),
        ('get("https://me:hunter2@host/x")', 'get("https://***@host/x")'),
        ("key = self.key_proj(x)", "key = self.key_proj(x)"),
        ("token = tokens[:, 0]", "token = tokens[:, 0]"),
        ('tokenizer = load("gpt2-large")', 'tokenizer = load("gpt2-large")'),
        ("sorted(x, key=len)", "sorted(x, key=len)"),
    ],
)
def test_source_keeps_its_names_and_loses_what_is_written_out(line, masked):
    assert masked_source(line) == masked


def test_a_header_of_its_own_word_loses_its_value():
    words = ["train.py", "--header", f"X-Api-Key: {SECRET}"]
    assert masked_words(words)[2] == "X-Api-Key: ***"
