import numpy as np

from pitstop.workloads.scenes import Scene, to_bytes


def test_the_same_seed_is_the_same_film_and_another_seed_is_not():
    frame = Scene(1, 32, 48).frame(3)
    assert np.array_equal(frame, Scene(1, 32, 48).frame(3))
    assert not np.array_equal(frame, Scene(2, 32, 48).frame(3))


def test_frames_are_pictures_with_texture():
    frame = Scene(1, 32, 48).frame(0)
    assert (frame.shape, frame.dtype) == ((32, 48, 3), np.float32)
    assert frame.min() >= 0
    assert frame.max() <= 1
    assert frame.std() > 0.05


def test_time_is_continuous_and_things_move():
    scene = Scene(1, 64, 64, speed=0.02)
    start, soon, later = (scene.frame(time) for time in (0, 0.05, 4))
    assert abs(soon - start).mean() < abs(later - start).mean() / 4


def test_bytes_are_rounded_not_cut():
    assert to_bytes(np.array([[[0.0, 0.999, 1.2]]], np.float32)).tolist() == [[[0, 255, 255]]]
