import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest
import torch
from accelerate.utils import set_seed  # type: ignore[import-untyped]

from pitstop.workloads.lora_diffusion import cards, config, data, flow, model, serve, slow

FULL_PARAMETERS = {  # millions, as the README says
    model.transformer: 444,
    model.autoencoder: 83.8,
    model.clip_encoder: 85.5,
    model.t5_encoder: 169,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def folder(root):
    return data.prepare(small=True, root=root)


@pytest.fixture(scope="module")
def trainer(folder, tmp_path_factory):
    set_seed(0)
    settings = replace(config.SMALL, max_train_steps=2, num_workers=1, num_validation_images=2)
    return slow.FluxTrainer(settings, folder, tmp_path_factory.mktemp("out"), "cpu")


@pytest.fixture
def one_thread():
    """The same sums as in a process that was started with one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("build", FULL_PARAMETERS, ids=lambda build: build.__name__)
def test_full_size_parameter_counts(build):
    with torch.device("meta"):
        part = build(model.FULL)
    millions = sum(each.numel() for each in part.parameters()) / 1e6
    assert millions == pytest.approx(FULL_PARAMETERS[build], rel=0.1)


def test_the_full_folder_stays_below_two_gigabytes():
    weights = 2e6 * sum(FULL_PARAMETERS.values())  # bf16
    pictures = len(cards.STYLES) * (data.FULL.train + data.FULL.held_out)
    assert weights + pictures * 1_000_000 < 2e9


def test_packing_can_be_undone():
    latents = torch.randn(2, 16, 6, 10)
    packed = flow.pack_latents(latents)
    assert packed.shape == (2, 15, 64)
    assert torch.equal(flow.unpack_latents(packed, 6, 10), latents)


def test_image_ids_are_row_and_column():
    assert flow.latent_image_ids(4, 6).tolist()[4] == [0, 1, 1]


def test_captions_say_what_is_in_the_picture():
    card = cards.draw_card(3, "dusk")
    assert card == cards.draw_card(3, "dusk")
    assert card.caption().endswith("ground, <dusk-style>")
    picture = card.picture(64)
    assert picture.shape == (64, 64, 3)
    assert picture[2].max() == 0  # the letterbox


def test_splits_do_not_share_pictures(folder):
    train, held_out = (
        data.StyleDataset(folder, "dusk", split, 128) for split in ("train", "held-out")
    )
    assert (len(train), len(held_out)) == (data.SMALL.train, data.SMALL.held_out)
    assert not set(train.items) & set(held_out.items)
    assert train[0]["pixel_values"].shape == (3, 128, 128)


def test_an_unknown_style_is_an_error(folder):
    with pytest.raises(ValueError, match="no train pictures of style 'western'"):
        data.StyleDataset(folder, "western", "train", 128)


def test_cached_and_fresh_latents_meet_the_promised_scale(trainer):
    dataset = trainer.style_dataset("held-out")
    pictures = torch.stack([dataset.load(file_name) for file_name, _ in dataset.items])
    fresh = trainer.model_input({"pixel_values": pictures})
    assert fresh.mean().item() == pytest.approx(0, abs=0.15)
    assert fresh.std().item() == pytest.approx(1, abs=0.15)
    cached = torch.stack(dataset.cached_latents)
    assert torch.allclose(trainer.model_input({"latents": cached}), fresh, atol=0.3)


def test_only_the_lora_learns(trainer):
    trainable = {
        name for name, each in trainer.transformer.named_parameters() if each.requires_grad
    }
    assert trainable
    assert all(".lora_" in name for name in trainable)
    parts = (trainer.vae, *trainer.text_encoders)
    assert not any(each.requires_grad for part in parts for each in part.parameters())


def test_calls_of_one_step_and_one_validation(trainer, monkeypatch):
    """Frozen encoders run for every batch; a validation loads all but the transformer again."""
    counts: Counter[str] = Counter()
    clip, t5 = trainer.text_encoders
    for name, part in {"clip": clip, "t5": t5, "transformer": trainer.transformer}.items():
        part.register_forward_hook(lambda *_, name=name: counts.update([name]))
    batch = {"latents": torch.randn(2, 16, 16, 16), "caption": ["a red circle", "a blue square"]}
    trainer.compute_loss(batch)
    trainer.compute_loss(batch)
    assert counts == {"clip": 2, "t5": 2, "transformer": 2}

    resident = trainer.pipeline
    load, loads = slow.FluxPipeline.from_pretrained, []

    def counted_load(*arguments, **options):
        loads.append(load(*arguments, **options))
        return loads[-1]

    monkeypatch.setattr(slow.FluxPipeline, "from_pretrained", counted_load)
    trainer.generate_images(step=1)
    (rebuilt,) = loads
    assert trainer.pipeline is rebuilt  # held until the next validation
    assert rebuilt.transformer is resident.transformer
    assert rebuilt.vae is not resident.vae
    assert rebuilt.text_encoder_2 is not resident.text_encoder_2
    pictures, steps = trainer.config.num_validation_images, trainer.config.num_inference_steps
    assert counts["transformer"] == 2 + pictures * steps


def test_the_learning_rate_moves_once_a_batch(trainer):
    loader = [{"latents": torch.randn(2, 16, 16, 16), "caption": ["a circle", "a square"]}] * 4
    trainable = [each for each in trainer.transformer.parameters() if each.requires_grad]
    optimizer = trainer.accelerator.prepare(torch.optim.SGD(trainable, lr=1e-6))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer.optimizer, 1, gamma=0.5)
    trainer.training_loop(loader, optimizer, scheduler)
    steps = trainer.config.max_train_steps * trainer.config.gradient_accumulation_steps
    assert scheduler.last_epoch == steps


def test_the_held_out_loss_is_the_same_at_every_call(trainer):
    trainer.held_out = torch.utils.data.DataLoader(trainer.style_dataset("held-out"), batch_size=8)
    first = trainer.held_out_loss()
    torch.manual_seed(99)
    assert trainer.held_out_loss() == first


def test_the_script_trains_and_trains_again_alike(folder, root, tmp_path, capsys, one_thread):
    arguments = ["--small", "--steps", "2", "--data", str(root), "--device", "cpu", "--out"]
    done = subprocess.run(
        [sys.executable, "-m", slow.__name__, *arguments, str(tmp_path / "a")],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("[val] step=0 val_loss=")
    assert re.fullmatch(r"\[step 1/2\] loss=\d+\.\d+ time=\d+\.\d+s", lines[1])
    assert re.fullmatch(r"\[done\] steps=2 batch=8 val_loss=\d+\.\d+", lines[-1])
    slow.main([*arguments, str(tmp_path / "b")])
    first, second = (
        re.findall(r"loss=(\S+)", text) for text in (done.stdout, capsys.readouterr().out)
    )
    assert len(first) == 5
    assert first == second
    out = tmp_path / "a"
    assert torch.load(out / "checkpoint.pt")["step"] == 2
    assert list(out.glob("logs/events*"))
    assert len(list(out.glob("validation/*.png"))) == 2 * config.SMALL.num_validation_images
    assert (out / "loras/dusk/pytorch_lora_weights.safetensors").exists()


def test_serving_holds_two_equal_sets_of_weights_and_adapts_one(folder):
    server = serve.FluxServer(serve.SMALL, folder, folder / "loras", "cpu")
    base, lora = server.base_pipeline, server.lora_pipeline
    for part in ("transformer", "vae", "text_encoder", "text_encoder_2"):
        one, two = (next(getattr(each, part).parameters()) for each in (base, lora))
        assert torch.equal(one, two)
        assert one.data_ptr() != two.data_ptr()
    assert server.generate("a red circle", None, 0) != server.generate("a red circle", "noir", 0)
    assert lora.get_active_adapters()
    assert not base.get_active_adapters()


def test_serving_asks_for_the_loras_twice_and_answers(folder, root, tmp_path, capsys, monkeypatch):
    asked = []
    monkeypatch.setattr(
        serve.FluxServer, "available_loras", lambda _: asked.append("loras") or ["dusk"]
    )
    paths = ["--data", str(root), "--out", str(tmp_path), "--device", "cpu"]
    serve.main(["--small", "--requests", "1", *paths])
    first, last = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\[request 1/1\] lora=dusk time=\d+\.\d+s", first)
    assert last == "[done] requests=1 batch=2"
    assert len(asked) == 2
    assert len(list(tmp_path.glob("*.png"))) == 2


@pytest.mark.parametrize(
    ("main", "arguments", "complaint"),
    [
        (slow.main, ["--steps", "0"], "--steps must be at least 1"),
        (slow.main, ["--style", "western"], "invalid choice: 'western'"),
        (serve.main, ["--requests", "0"], "--requests must be at least 1"),
        (serve.main, ["--loras", "nowhere"], "train one first"),
    ],
)
def test_wrong_arguments_end_in_one_line(main, arguments, complaint, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert complaint in capsys.readouterr().err.splitlines()[-1]
