"""The features of a run: those of the training, test and validation images, each computed once."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from threading import Lock
from weakref import ref

import torch
from torch import Tensor

from tailcloud.data import Split
from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import Pixels
from tailcloud.data.loaders.features import FeatureImages
from tailcloud.data.loaders.images import Images
from tailcloud.formatting import counted, duration
from tailcloud.training import signals
from tailcloud.training.devices import using_threads
from tailcloud.training.features.embedder import Embedder
from tailcloud.training.features.feature_cache import Digests, FeatureCache, KnownFeatures, pixel_digests
from tailcloud.training.features.views import View
from tailcloud.training.run_images import RunImages

READ_AT_ONCE = 256  # images
SECONDS_BETWEEN_NOTES = 5.0
REMEMBERED_BYTES = 2 << 30

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Remembered:
    """Features [views, N, D] of some images, which this process may need again."""

    images: "ref[Pixels | FileImages]"
    views: list[str]
    features: Tensor | None = None

    @property
    def nbytes(self) -> int:
        """Their size."""
        return 0 if self.features is None else self.features.nbytes

    def some(self, views: list[str]) -> Tensor:
        """Some of the views; not a copy if they are the first ones."""
        assert self.features is not None
        places = [self.views.index(view) for view in views]
        return self.features[: len(places)] if places == list(range(len(places))) else self.features[places]


_remembering = Lock()  # one run of this process computes features at a time; the others then find them
_remembered: OrderedDict[tuple[int, str], Remembered] = OrderedDict()


class TooSlow(Exception):
    """Features would take longer than they may; those of an image take ``seconds`` now."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class RunFeatures:
    """Features of a run's splits as ``Images``; ``val`` is None without validation. They are computed when asked for.

    ``train`` has several views of each image, the others have one.

    Args:
        images: the splits.
        embedder: the backbone.
        views: of training images.
        cache: where features are kept; None: in memory only.
        note: receives a sentence about each split.
    """

    def __init__(
        self,
        images: RunImages,
        embedder: Embedder,
        views: Sequence[View],
        cache: FeatureCache | None,
        note: Callable[[str], None],
    ) -> None:
        self.images, self.embedder, self.views, self.cache, self.note = images, embedder, list(views), cache, note
        self.longest: float | None = None  # seconds that features of the training images may take

    @cached_property
    def train(self) -> FeatureImages:
        """The training images."""
        return self._features("training", self.images.dataset.train, self.images.train_as_test, self.views)

    @property
    def train_as_test(self) -> FeatureImages:
        """The training images; their view 0 is for evaluation."""
        return self.train

    @cached_property
    def test(self) -> FeatureImages:
        """The test images."""
        return self._features("test", self.images.dataset.test, self.images.test, [View()])

    @cached_property
    def val(self) -> FeatureImages | None:
        """The validation images."""
        split, images = self.images.dataset.val, self.images.val
        return self._features("validation", split, images, [View()]) if split and images else None

    def load(self, *, train: bool = True) -> None:
        """Compute or read everything now; training images only if a stage trains on them."""
        _ = self.train if train else None, self.val, self.test

    def _features(self, name: str, split: Split, images: Images, views: list[View]) -> FeatureImages:
        with _remembering:
            return FeatureImages(self._remembered(name, split, images, views), images.labels)

    def _remembered(self, name: str, split: Split, images: Images, views: list[View]) -> Tensor:
        """Features [views, N, D]; those that this process has in its memory are not computed again."""
        key = id(split.images), self.embedder.key
        found = _remembered.pop(key, None)
        if found is None or found.images() is not split.images:
            found = Remembered(ref(split.images), [])
        new = [view for view in views if view.key not in found.views]
        if new:
            features = SplitFeatures(self, name, images, new).all()
            together = features if found.features is None else torch.cat([found.features, features])
            found = Remembered(found.images, [*found.views, *(view.key for view in new)], together)
        _remembered[key] = found
        while len(_remembered) > 1 and sum(each.nbytes for each in _remembered.values()) > REMEMBERED_BYTES:
            _remembered.popitem(last=False)
        return found.some([view.key for view in views])


def forget_features() -> None:
    """Free the memory of features that were computed before."""
    with _remembering:
        _remembered.clear()


def cache_key(embedder: Embedder, view: View) -> str:
    """Where the cache keeps the features of a view."""
    return sha256(f"{embedder.key} {view.key}".encode()).hexdigest()[:32]


def known_share(pixels: Pixels, embedder: Embedder, cache: FeatureCache) -> float:
    """The share of some images [N, H, W, C] whose features the cache has."""
    known = cache.load(cache_key(embedder, View()), embedder.model.backbone.features)
    return len(known.find(pixel_digests(pixels))[0]) / max(1, len(pixels))


class SplitFeatures:
    """The features of one split, from the cache or computed: every image is read once for all of its views."""

    def __init__(self, run: RunFeatures, name: str, images: Images, views: list[View]) -> None:
        self.name, self.images, self.views, self.note = name, images, views, run.note
        self.embedder, self.cache, self.longest = run.embedder, run.cache, run.longest
        self.length = self.embedder.model.backbone.features
        self.features = torch.zeros(
            len(views), len(images.labels), self.length, dtype=torch.float16, device=images.device
        )
        self.digests: Digests = []
        self.waiting: list[tuple[list[Tensor], list[int]]] = [([], []) for _ in views]  # pixels and rows, by view
        self.computed: list[list[int]] = [[] for _ in views]  # rows
        self.seen = 0  # images
        self.began = self.last = time.monotonic()

    def all(self) -> Tensor:
        """Features [views, N, D]."""
        with self.cache.exclusive(self.embedder.key[:32]) if self.cache else nullcontext():
            try:
                with using_threads(self.embedder.threads):
                    self._fill()
            finally:  # what was computed is kept, also if somebody stops the process here
                self._store()
        if self.images.device.type == "cuda":
            torch.cuda.current_stream().synchronize()  # other streams may use them
        self.note(self._summary())
        return self.features

    def _fill(self) -> None:
        cache = self.cache if self.cache and self.cache.usable else None
        known = [cache.load(self._key(view), self.length) for view in self.views] if cache else []
        rows = torch.arange(len(self.images.labels))
        for batch in self.images.some(lambda pixels: pixels, rows, READ_AT_ONCE):
            signals.raise_if_stopped()
            start = self.seen
            here = list(range(start, start + len(batch.target)))
            digests = pixel_digests(batch.images.cpu().numpy()) if cache else []
            self.digests += digests
            for number in range(len(self.views)):
                found = self._use(number, known[number], start, digests) if cache else []
                self._embed_later(number, batch.images, start, sorted({*here} - {*found}))
            self.seen += len(here)
            self._tell_progress()
        for number in range(len(self.views)):
            self._embed(number, at_least=1)

    def _use(self, number: int, known: KnownFeatures, start: int, digests: Digests) -> list[int]:
        """Take what is known from the cache; the rows of these images."""
        found, values = known.find(digests)
        rows = [start + position for position in found]
        if rows:
            self.features[number, rows] = torch.from_numpy(values).to(self.features.device)
        return rows

    def _embed_later(self, number: int, pixels: Tensor, start: int, rows: list[int]) -> None:
        if not rows:
            return
        waiting_pixels, waiting_rows = self.waiting[number]
        waiting_pixels.append(pixels[[row - start for row in rows]])
        waiting_rows += rows
        self._embed(number, at_least=self.embedder.batch)

    def _embed(self, number: int, at_least: int) -> None:
        """Compute waiting features, a batch at a time, as long as so many images are waiting."""
        waiting_pixels, rows = self.waiting[number]
        if len(rows) < at_least:
            return
        pixels, size = torch.cat(waiting_pixels), self.embedder.batch
        while len(rows) >= at_least:
            signals.raise_if_stopped()
            self.features[number, rows[:size]] = self.embedder(pixels[:size], self.views[number])
            self.computed[number] += rows[:size]
            pixels, rows = pixels[size:], rows[size:]
            self._tell_progress()
        self.waiting[number] = ([pixels], rows) if rows else ([], [])

    def _tell_progress(self) -> None:
        now = time.monotonic()
        if now - self.last > SECONDS_BETWEEN_NOTES:
            self.last, done = now, sum(map(len, self.computed))
            left = len(self.views) * len(self.images.labels)
            to_come = len(self.views) * (len(self.images.labels) - self.seen)
            if self.longest is not None and done and (now - self.began) * (1 + to_come / done) > self.longest:
                raise TooSlow((now - self.began) / done)
            log.info(
                "%s of %s features of %s images computed, %.0f per second",
                *(f"{done:,}", f"{left:,}", self.name, done / (now - self.began)),
            )

    def _store(self) -> None:
        if not self.cache or not self.digests:
            return
        for view, rows, features in zip(self.views, self.computed, self.features, strict=True):
            new = list({self.digests[row]: row for row in rows}.values())  # equal images once
            self.cache.store(self._key(view), [self.digests[row] for row in new], features[new].cpu().numpy())

    def _key(self, view: View) -> str:
        return cache_key(self.embedder, view)

    def _summary(self) -> str:
        computed, everything = sum(map(len, self.computed)), len(self.views) * len(self.images.labels)
        views = f" × {counted(len(self.views), 'view')}" if len(self.views) > 1 else ""
        origin = f"{computed:,} computed" + (f", {everything - computed:,} from the cache" if self.cache else "")
        took = duration(time.monotonic() - self.began)
        return f"Features of {counted(len(self.images.labels), f'{self.name} image')}{views}: {origin} ({took})."
