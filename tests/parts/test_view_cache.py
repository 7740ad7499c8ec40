"""Views that are kept with their poses, and drawn anew beside the training."""

import threading
from itertools import pairwise

import pytest
import torch

from pitstop.core.errors import PitstopError
from pitstop.parts import view_cache


class Renderer:
    """Draws a number near each pose, and remembers how it was asked."""

    def __init__(self):
        self.random = torch.Generator().manual_seed(0)
        self.sizes = []
        self.threads = set()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def near(self, poses):
        assert self.may_go_on.wait(20)
        assert not torch.is_grad_enabled()
        self.sizes.append(len(poses))
        self.threads.add(threading.get_ident())
        moved = poses + torch.rand(len(poses), 1, generator=self.random) / 2
        return moved, moved.view(-1, 1, 1, 1).expand(-1, 3, 4, 4).clone()


@pytest.fixture
def renderer():
    return Renderer()


def poses(count=10):
    return torch.arange(count).float()[:, None]


def test_views_are_drawn_in_batches_and_kept_with_their_poses(renderer):
    with view_cache(renderer.near, poses(), at_once=4) as views:
        assert renderer.sizes == [4, 4, 2]
        assert len(views) == 10
        where, pictures = views[torch.tensor([7, 2])]
        assert where.int().flatten().tolist() == [7, 2]
        assert pictures[:, 0, 0, 0].equal(where[:, 0])


def test_the_oldest_are_drawn_in_turn(renderer):
    with view_cache(renderer.near, poses()) as views:
        seen = [views.poses.clone()]
        for _ in range(4):
            views.ask(4)
            views.take()
            seen.append(views.poses.clone())
        changed = [
            (one != other).flatten().nonzero()[:, 0].tolist() for one, other in pairwise(seen)
        ]
        assert changed == [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 8, 9], [2, 3, 4, 5]]
        assert views.views[:, 0, 0, 0].equal(views.poses[:, 0])
        assert views.poses.int().flatten().tolist() == list(range(10))


def test_they_are_drawn_in_another_thread_and_come_in_when_they_are_taken(renderer):
    with view_cache(renderer.near, poses()) as views:
        before = views.poses.clone()
        renderer.may_go_on.clear()
        views.ask()
        _, pictures = views[torch.arange(10)]  # training goes on while the renderer does not
        renderer.may_go_on.set()
        assert views.poses.equal(before)
        views.take()
        assert not (views.poses == before).any()
        assert pictures[:, 0, 0, 0].equal(before[:, 0])  # a batch is a copy
        assert len(renderer.threads) == 2


def test_the_numbers_are_those_of_drawing_in_the_loop(renderer):
    twin = Renderer()
    with view_cache(renderer.near, poses(), at_once=10) as views, torch.no_grad():
        for _ in range(3):
            assert views.views.equal(twin.near(poses())[1])
            views.ask()
            views.take()


def test_an_error_of_the_renderer_comes_up_when_its_views_are_taken(renderer):
    with view_cache(renderer.near, poses()) as views:
        renderer.near = None
        views._draw = lambda _: 1 / 0
        views.ask()
        with pytest.raises(ZeroDivisionError):
            views.take()
        views.take()  # nothing is left of it


def test_closing_ends_the_thread(renderer):
    views = view_cache(renderer.near, poses())
    views.ask()
    views.close()
    assert not any(each.name.startswith("views") for each in threading.enumerate())


@pytest.mark.parametrize(
    ("draw", "where", "options", "words"),
    [
        (Renderer().near, poses(0), {}, "no poses"),
        (Renderer().near, poses(), {"at_once": 0}, "at_once=0"),
        (lambda some: (some, some[1:]), poses(), {}, "10 poses were to be drawn; 10 poses and 9"),
    ],
)
def test_bad_input_is_one_line(draw, where, options, words):
    with pytest.raises(PitstopError, match=words):
        view_cache(draw, where, **options)


def test_a_negative_count_is_one_line(renderer):
    views = view_cache(renderer.near, poses())
    with pytest.raises(PitstopError, match="-1 views cannot be drawn"):
        views.ask(-1)
