"""View cache: rendered views kept with their poses, the oldest drawn anew while training goes on.

Why plain PyTorch is slow here: a training that renders new views from a scene of Gaussians stops
every few epochs and renders them one by one. Each view is hundreds of small kernels, and its
quality is judged on the CPU; meanwhile the network waits.

``draw`` renders many views in one call: hand the poses of all cameras to the renderer at once, as
``gsplat.rasterization`` takes them, and judge the pictures where they are. The cache keeps views,
poses and ages where they were drawn. ``ask`` lets a thread draw the oldest anew, on a stream of its
own; ``take`` waits for it and brings them in. Views change in these two calls only, so results do
not depend on how fast the thread was.

The floor: a batch is one gather. Drawing still takes its time on the GPU, which training and the
thread share: what is gained is time in which the GPU waited. ``draw`` runs without gradients and
autocast, beside the training: let it draw random numbers from a generator of its own. The twin is
``draw`` in the training loop.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import torch

from pitstop.core.errors import PitstopError

Draw = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]  # poses: new ones, their views


class ViewCache:
    """Views and their poses, by index."""

    def __init__(self, draw: Draw, wanted: torch.Tensor, at_once: int) -> None:
        self._draw, self._wanted, self._at_once = draw, wanted, at_once
        self._thread = ThreadPoolExecutor(1, "views")
        self._drawing: Future[tuple[torch.Tensor, torch.Tensor]] | None = None
        self._places = torch.arange(len(wanted))
        self.poses, self.views = self._drawn(self._places)
        self.ages = torch.zeros(len(wanted), dtype=torch.long)  # in rounds of ask

    def __len__(self) -> int:
        return len(self.views)

    def __getitem__(self, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Poses and views, as tensors of their own."""
        return self.poses[places.to(self.poses.device)], self.views[places.to(self.views.device)]

    def ask(self, count: int | None = None) -> None:
        """Take what was asked for before, and have the ``count`` oldest drawn; None: all."""
        self.take()
        count = len(self) if count is None else count
        if count < 0:
            raise PitstopError(f"{count} views cannot be drawn")
        self.ages += 1
        if count:
            self._places = self.ages.argsort(descending=True, stable=True)[:count]
            ready = _event(self.views)
            self._drawing = self._thread.submit(self._beside, self._places, ready)

    def take(self) -> None:
        """Bring in the views that were asked for; wait for them if need be."""
        if self._drawing is None:
            return
        drawing, self._drawing = self._drawing, None
        for kept, new in zip((self.poses, self.views), drawing.result(), strict=True):
            if new.is_cuda:
                new.record_stream(torch.cuda.current_stream(new.device))
            kept[self._places.to(kept.device)] = new.to(kept.dtype)
        self.ages[self._places] = 0

    def close(self) -> None:
        """End the thread; what was asked for and not yet begun is dropped."""
        self._drawing = None
        self._thread.shutdown(cancel_futures=True)

    def __enter__(self) -> "ViewCache":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.close()

    def _beside(
        self, places: torch.Tensor, ready: torch.cuda.Event | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """In the thread: drawn on a stream of its own, and done when it returns."""
        if ready is None:
            return self._drawn(places)
        device = self.views.device
        stream = torch.cuda.Stream(device)
        with torch.cuda.stream(stream):
            stream.wait_event(ready)
            drawn = self._drawn(places)
        stream.synchronize()
        return drawn

    @torch.no_grad()
    def _drawn(self, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """New poses and views at these places, ``at_once`` of them in a call."""
        found = []
        for some in places.split(self._at_once):
            poses, views = self._draw(self._wanted[some.to(self._wanted.device)])
            if not len(poses) == len(views) == len(some):
                raise PitstopError(
                    f"{len(some)} poses were to be drawn; {len(poses)} poses and {len(views)} "
                    "views came back"
                )
            found.append((poses, views))
        poses, views = (torch.cat(each) for each in zip(*found, strict=True))
        return poses, views


def view_cache(draw: Draw, poses: torch.Tensor, at_once: int = 16) -> ViewCache:
    """Views from near each of the poses, drawn now, ``at_once`` in a call of ``draw``.

    views = view_cache(renderer.near, poses)
    for epoch in range(epochs):
        views.ask(100)  # the oldest hundred, drawn during this epoch, seen in the next
        for places in torch.randperm(len(views)).split(8):
            poses, pictures = views[places]
    views.close()

    ``draw`` takes poses (V, ...) and gives those that it has drawn, with their views (V, ...).
    """
    if not len(poses):
        raise PitstopError("no poses, so no views to keep")
    if at_once < 1:
        raise PitstopError(f"at_once={at_once}: at least one view at a time")
    return ViewCache(draw, poses, at_once)


def _event(views: torch.Tensor) -> torch.cuda.Event | None:
    """The moment until which the thread's stream waits: the scene may just have been moved."""
    return torch.cuda.current_stream(views.device).record_event() if views.is_cuda else None
