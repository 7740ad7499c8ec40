import pytest

from pitstop.scan.rules.host_work_in_step import host_work_in_step
from pitstop.scan.source import Source

LOOP = """\
import cv2
import torch
{before}
model.eval()
for path in frames:
    {read}
    with torch.no_grad():
        result = model(frame)
    {write}
"""
READ, WRITE = "frame = cv2.imread(path)", "cv2.imwrite(path, result)"


def found_in(read=READ, write=WRITE, before=""):
    return host_work_in_step(Source(LOOP.format(read=read, write=write, before=before)))


def test_finds_reading_and_writing_once_for_a_loop():
    (finding,) = found_in()
    assert (finding.code, finding.span.line, finding.severity) == ("PIT212", 6, "warning")
    assert "lines 6 and 9" in finding.message


@pytest.mark.parametrize(
    ("read", "write"),
    [
        ("ok, frame = cap.read()", "vid_out.write(result)"),
        ("frame = Image.open(path)", "Image.fromarray(result).save(path)"),
        ("frame = cv2.resize(path, size)", "out.write(result)"),
        ("frame = cv2.imread(path)", "for each in result: save_image(each, path)"),
    ],
)
def test_finds(read, write):
    assert len(found_in(read, write)) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"read": "frame = load(path)"},
        {"write": "results.append(result)"},
        {"write": "writer.append_data(result)"},  # ffmpeg runs beside
        {"write": "if step % 100 == 0: cv2.imwrite(path, result)"},
        {"before": "import threading"},
        {"write": "file.write(path)"},
    ],
)
def test_leaves_alone(changed):
    assert found_in(**changed) == []


def test_a_few_test_pictures_are_a_note():
    text = LOOP.format(read=READ, write=WRITE, before="").replace("frame", "picture")
    assert [each.severity for each in host_work_in_step(Source(text))] == ["note"]


def test_a_pipeline_takes_seconds_itself():
    text = LOOP.format(read=READ, write=WRITE, before="").replace("model", "pipe")
    assert host_work_in_step(Source(text)) == []


def test_building_a_network_is_not_running_it():
    text = LOOP.format(read=READ, write=WRITE, before="").replace("model(", "Net.from_unet(")
    assert host_work_in_step(Source(text)) == []
