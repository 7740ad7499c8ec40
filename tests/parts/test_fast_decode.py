"""Decoding stops below the crop, and what comes out is what the whole picture has there."""

import importlib
import io

import numpy as np
import pytest
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from pitstop.core.errors import PitstopError
from pitstop.parts import fast_decode

made = importlib.import_module("pitstop.parts.fast_decode")

SIZE = (331, 277)  # divides no block
CROPS = [(0, 0, 331, 277), (0, 0, 64, 64), (100, 90, 171, 111), (37, 0, 38, 1), (5, 200, 69, 277)]
KINDS = {
    "jpeg 4:2:0": ("RGB", "JPEG", {"subsampling": 2}),
    "jpeg 4:2:2": ("RGB", "JPEG", {"subsampling": 1}),
    "jpeg 4:4:4": ("RGB", "JPEG", {"subsampling": 0, "quality": 98}),
    "jpeg with restarts": ("RGB", "JPEG", {"restart_marker_rows": 1}),
    "jpeg with a profile": (
        "RGB",
        "JPEG",
        {"icc_profile": b"\xff\xda" * 50, "comment": b"\xff\xc0"},
    ),
    "jpeg progressive": ("RGB", "JPEG", {"progressive": True}),
    "jpeg grey": ("L", "JPEG", {}),
    "jpeg cmyk": ("CMYK", "JPEG", {}),
    "png": ("RGB", "PNG", {}),
    "png grey": ("L", "PNG", {}),
    "png alpha": ("RGBA", "PNG", {}),
    "png palette": ("P", "PNG", {}),
    "webp": ("RGB", "WEBP", {"lossless": True}),
    "bmp": ("RGB", "BMP", {}),
}


def picture(size=SIZE, mode="RGB"):
    """Hills and some noise."""
    numbers = np.random.default_rng(3)
    coarse = numbers.integers(0, 255, (9, 11, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC))
    noisy = smooth.astype(int) + numbers.integers(-9, 9, smooth.shape)
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).convert(mode)


def encoded(kind, size=SIZE):
    mode, name, options = KINDS[kind]
    file = io.BytesIO()
    picture(size, mode).save(file, name, **options)
    return file.getvalue()


@pytest.fixture(params=["pillow", "simplejpeg"])
def _decoder(request, monkeypatch):
    if request.param == "simplejpeg":
        pytest.importorskip("simplejpeg")
    else:
        monkeypatch.setattr(made, "_turbo", lambda: None)


@pytest.mark.usefixtures("_decoder")
@pytest.mark.parametrize("kind", KINDS)
def test_a_crop_is_bit_for_bit_that_of_the_whole_picture(kind):
    data = encoded(kind)
    for crop in CROPS:
        assert np.array_equal(fast_decode(data, crop), made.fast_decode_twin(data, crop)), crop
    assert np.array_equal(fast_decode(data), made.fast_decode_twin(data))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_below_the_crop_are_left_out_where_the_format_allows(kind):
    """Whatever stands in the last third of the file does not matter."""
    data = encoded(kind, (331, 1277))
    spoiled = data[: len(data) * 2 // 3] + bytes(len(data) // 3 - 100) + data[-100:]
    cut_short = kind in {"webp", "bmp", "jpeg progressive"}
    ending = made._ending_at(data, 97)
    assert (ending == data) == cut_short
    if not cut_short:
        assert Image.open(io.BytesIO(ending)).size == (331, 97)
        left = fast_decode(spoiled, (0, 0, 331, 64))
        assert np.array_equal(left, made.fast_decode_twin(data, (0, 0, 331, 64)))


@pytest.mark.usefixtures("_decoder")
@pytest.mark.parametrize("crop", [None, (0, 0, 200, 200), (31, 17, 330, 276)])
def test_a_smaller_version_is_near_the_twin_and_exact_where_that_is_asked(crop):
    for kind in KINDS:
        data = encoded(kind)
        for size in ((24, 20), (64, 64), (170, 150), (400, 300)):
            ours, twin = fast_decode(data, crop, size), made.fast_decode_twin(data, crop, size)
            assert ours.shape == (size[1], size[0], 3)
            assert np.array_equal(twin, fast_decode(data, crop, size, exact=True))
            if size[0] > 100 or not kind.startswith("jpeg"):
                assert np.array_equal(twin, ours)
            else:
                assert np.abs(twin.astype(int) - ours).mean() < 6


def middle_of_light(pixels):
    light = pixels.mean(-1) / pixels.mean(-1).sum()
    rows, columns = np.mgrid[: len(light), : len(light)]
    return np.array([(light * rows).sum(), (light * columns).sum()])


@pytest.mark.parametrize("side", [32, 64, 128])
@pytest.mark.parametrize("left", [96, 101, 103])  # shrunk by 8, the last two begin within a pixel
def test_a_shrunk_crop_lies_where_it_lies_in_the_whole_picture(left, side):
    rows, columns = np.mgrid[:512, :512]
    blob = 255 * np.exp(-((rows - 187.3) ** 2 + (columns - 230.6) ** 2) / 1200)
    file = io.BytesIO()
    Image.fromarray(blob.astype(np.uint8)).convert("RGB").save(file, "JPEG", quality=100)
    crop = (left, 53, left + 256, 309)
    ours = fast_decode(file.getvalue(), crop, (side, side))
    twin = made.fast_decode_twin(file.getvalue(), crop, (side, side))
    assert not np.array_equal(ours, twin)
    assert np.abs(middle_of_light(ours) - middle_of_light(twin)).max() < 0.05


def test_a_function_of_the_size_chooses_the_crop(tmp_path):
    path = tmp_path / "one.png"
    path.write_bytes(encoded("png"))
    lower = fast_decode(path, lambda width, height: (width // 2, height // 2, width, height))
    assert np.array_equal(lower, np.array(picture())[138:, 165:])


class Crops(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return fast_decode(self.paths[index], (8, 8, 72, 72))


def test_workers_decode(tmp_path):
    for index in range(4):
        (tmp_path / f"{index}.jpg").write_bytes(encoded("jpeg 4:2:0"))
    loader = DataLoader(
        Crops(sorted(map(str, tmp_path.iterdir()))),
        batch_size=2,
        num_workers=2,
    )
    assert [tuple(batch.shape) for batch in loader] == [(2, 64, 64, 3)] * 2


@pytest.mark.usefixtures("_decoder")
@pytest.mark.parametrize("kind", ["jpeg 4:2:0", "png"])
@pytest.mark.parametrize("size", [None, (32, 32)])
def test_a_file_cut_short_is_an_error_in_one_line(kind, size, tmp_path):
    path = tmp_path / "short.file"
    path.write_bytes(encoded(kind)[:9000])
    for crop in (None, (0, 0, 331, 240)):
        with pytest.raises(PitstopError, match=r"fast_decode: .*short.file: .*truncated"):
            fast_decode(path, crop, size)


def test_refuses_in_one_line(tmp_path):
    data = encoded("png")
    refused = {
        "nowhere.png: No such file or directory": lambda: fast_decode(tmp_path / "nowhere.png"),
        f"{tmp_path}: Is a directory": lambda: fast_decode(tmp_path),
        "3 bytes in memory: not a picture": lambda: fast_decode(b"no!"),
        r"no crop \(0, 0, 400, 9\) in a picture of 331x277": lambda: fast_decode(
            data, (0, 0, 400, 9)
        ),
        r"no crop \(5, 5, 5, 9\)": lambda: fast_decode(data, (5, 5, 5, 9)),
        "no picture has the size 0x4": lambda: fast_decode(data, size=(0, 4)),
    }
    for words, given in refused.items():
        with pytest.raises(PitstopError, match=words) as told:
            given()
        assert "\n" not in str(told.value)
