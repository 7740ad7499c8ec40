"""Made: random data that stands in for public datasets, in their formats and sizes."""

import json
import pickle
import struct
from pathlib import Path

import numpy as np
from PIL import Image

DIGITS = {"train": 2048, "t10k": 256}  # of MNIST, which has 60,000 and 10,000
OF_A_BATCH = 400  # of CIFAR-10's five, which have 10,000 each
PICTURES = 120  # of a folder
PHOTOGRAPH = (480, 320)  # width and height
VIDEO = (32, 160, 96)  # frames, width and height


def mnist(folder: Path) -> None:
    """Digits in the raw files that torchvision unpacks."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for split, count in DIGITS.items():
        pictures = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = random.integers(0, 10, count, dtype=np.uint8)
        images = raw / f"{split}-images-idx3-ubyte"
        images.write_bytes(struct.pack(">IIII", 2051, count, 28, 28) + pictures.tobytes())
        classes = raw / f"{split}-labels-idx1-ubyte"
        classes.write_bytes(struct.pack(">II", 2049, count) + labels.tobytes())


def fashion(folder: Path) -> None:
    """The same under another name."""
    mnist(folder)
    (folder / "MNIST").rename(folder / "FashionMNIST")


def cifar10(folder: Path) -> None:
    """Small pictures in the batches that torchvision unpickles."""
    _cifar(folder / "cifar-10-batches-py", 10, [*(f"data_batch_{i}" for i in range(1, 6))])


def cifar100(folder: Path) -> None:
    """The same with a hundred classes."""
    _cifar(folder / "cifar-100-python", 100, ["train"])


def _cifar(folder: Path, classes: int, train: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    key = "labels" if classes == 10 else "fine_labels"
    for name in (*train, "test_batch" if classes == 10 else "test"):
        pictures = random.integers(0, 256, (OF_A_BATCH, 3072), dtype=np.uint8)
        labels = random.integers(0, classes, OF_A_BATCH).tolist()
        (folder / name).write_bytes(pickle.dumps({"data": pictures, key: labels}))
    meta = {
        ("label_names" if classes == 10 else "fine_label_names"): [str(i) for i in range(classes)]
    }
    (folder / ("batches.meta" if classes == 10 else "meta")).write_bytes(pickle.dumps(meta))


def photographs(folder: Path) -> None:
    """Pictures of 480 x 320 with the grain of a photograph."""
    _pictures(folder, PHOTOGRAPH, "RGB")


def jpegs(folder: Path) -> None:
    """The same as JPEG, in the size of faces."""
    _pictures(folder, (176, 216), "RGB", suffix="jpg")


def small(folder: Path) -> None:
    """Pictures of 64 x 64."""
    _pictures(folder, (64, 64), "RGB")


def pairs(folder: Path) -> None:
    """Two pictures side by side, as pix2pix wants them."""
    _pictures(folder, (512, 256), "RGB", suffix="jpg")


def masks(folder: Path) -> None:
    """Black and white masks of the same size and names as photographs."""
    _pictures(folder, PHOTOGRAPH, "L", levels=2)


def classes(folder: Path) -> None:
    """Photographs in a folder for each of three classes."""
    for name in ("cat", "dog", "fox"):
        _pictures(folder / name, PHOTOGRAPH, "RGB", suffix="jpg")


def pets(folder: Path) -> None:
    """Photographs of three breeds in one folder: ``cat_001.jpg``."""
    for name in ("cat", "dog", "fox"):
        _pictures(folder, PHOTOGRAPH, "RGB", suffix="jpg", prefix=f"{name}_")


def ucf101(folder: Path) -> None:
    """Frames of videos in a folder each, and the list of them."""
    labels = ("run", "jump", "swim")
    names = {f"{label}_{number}": label for label in labels for number in range(8)}
    for name, label in names.items():
        frames = folder / "frames" / label / name
        _pictures(frames, (64, 48), "RGB", suffix="jpg", prefix="image_00")
    told = {
        name: {"subset": "training", "annotations": {"label": label, "segment": [1, PICTURES - 1]}}
        for name, label in names.items()
    }
    about = {"labels": labels, "database": told}
    (folder / "ucf101.json").write_text(json.dumps(about), encoding="utf-8")


def coco(folder: Path) -> None:
    """Photographs with three boxes each, in the format of COCO's detections."""
    (folder / "annotations").mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    width, height = PHOTOGRAPH
    images = [
        {"id": number, "file_name": f"{number:03}.jpg", "width": width, "height": height}
        for number in range(PICTURES)
    ]
    boxes = []
    for number in range(3 * PICTURES):
        left, top = (int(random.integers(0, size // 2)) for size in PHOTOGRAPH)
        box = [left, top, width // 3, height // 3]
        boxes.append(
            {"id": number + 1, "image_id": number // 3, "category_id": 1, "bbox": box}
            | {"area": box[2] * box[3], "iscrowd": 0}
        )
    kinds = [{"id": 1, "name": "thing"}]
    about = json.dumps({"images": images, "annotations": boxes, "categories": kinds})
    for split in ("train2017", "val2017"):
        _pictures(folder / split, PHOTOGRAPH, "RGB", suffix="jpg")
        (folder / "annotations" / f"instances_{split}.json").write_text(about, encoding="utf-8")


def captioned(folder: Path) -> None:
    """Small pictures with a caption each, as datasets' imagefolder reads them."""
    small(folder)
    rows = [f"{number:03}.png,a photo of a cat" for number in range(PICTURES)]
    (folder / "metadata.csv").write_text("\n".join(["file_name,text", *rows]), encoding="utf-8")


def stable_diffusion(folder: Path) -> None:
    """A pipeline of Stable Diffusion with small random networks and a vocabulary of letters."""
    import diffusers  # noqa: PLC0415 for one kind of program only
    import transformers  # noqa: PLC0415

    folder.mkdir(parents=True)
    letters = [chr(97 + number) for number in range(26)]
    words = [*letters, *(f"{each}</w>" for each in letters), "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {word: number for number, word in enumerate(words)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    tokenizer = transformers.CLIPTokenizer(
        str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=16
    )
    text = transformers.CLIPTextConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=4,
        num_hidden_layers=2,
        max_position_embeddings=16,
        bos_token_id=len(words) - 2,
        eos_token_id=len(words) - 1,
        pad_token_id=0,
    )
    unet = diffusers.UNet2DConditionModel(
        block_out_channels=(32, 64),
        layers_per_block=1,
        sample_size=16,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
        norm_num_groups=8,
    )
    vae = diffusers.AutoencoderKL(
        block_out_channels=(32, 64),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        norm_num_groups=8,
    )
    parts = {
        "vae": vae,
        "unet": unet,
        "tokenizer": tokenizer,
        "scheduler": diffusers.DDPMScheduler(),
    }
    unsafe = {"safety_checker": None, "feature_extractor": None}
    text_encoder = transformers.CLIPTextModel(text)
    diffusers.StableDiffusionPipeline(**parts, text_encoder=text_encoder, **unsafe).save_pretrained(
        folder
    )


def video(path: Path) -> None:
    """A short video in which a pattern moves."""
    import cv2  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415

    count, width, height = VIDEO
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = np.random.default_rng(0).integers(0, 256, (height // 8, width // 8, 3), np.uint8)
    whole = whole.repeat(8, 0).repeat(8, 1)
    code = cv2.VideoWriter.fourcc(*"mp4v")
    writer = cv2.VideoWriter(str(path), code, 25.0, (width, height))
    for number in range(count):
        writer.write(np.roll(whole, number, 1))
    writer.release()


def _pictures(
    folder: Path,
    size: tuple[int, int],
    mode: str,
    levels: int = 256,
    suffix: str = "png",
    prefix: str = "",
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    shape = (size[1] // 8, size[0] // 8, *((3,) if mode == "RGB" else ()))
    for number in range(PICTURES):
        coarse = random.integers(0, levels, shape, np.uint8) * (255 // (levels - 1))
        picture = Image.fromarray(coarse, mode).resize(size, Image.Resampling.NEAREST)
        picture.save(folder / f"{prefix}{number:03}.{suffix}", compress_level=1)


MADE = {
    each.__name__: each
    for each in (
        *(mnist, fashion, cifar10, cifar100, photographs, jpegs, small, pairs, masks, classes),
        *(pets, ucf101, coco, captioned, stable_diffusion, video),
    )
}
