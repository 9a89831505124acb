"""What tests of training share."""

import weakref

import pytest
import torch

from helpers.runs import Watcher, run
from tailcloud.training import checkpoint_policy
from tailcloud.training.executors import compiled


@pytest.fixture
def every_step(monkeypatch):
    """Saving takes no time that would have to be made good."""
    monkeypatch.setattr(checkpoint_policy, "MIN_TRAINING_PER_SAVE", 0)


@pytest.fixture
def check_compiled(tmp_path, monkeypatch):
    """Trains compiled and eagerly: the same losses, and nothing to note. A recipe is a function of its ``engine``."""
    torch._dynamo.reset()
    monkeypatch.setattr(compiled, "BACKEND", "aot_eager")

    def check(recipe_with):
        losses = {}
        for executor in ("eager", "compiled"):
            watcher = Watcher()
            run(tmp_path / executor, recipe_with({"engine": {"executor": executor}}), watcher)
            losses[executor] = [line["loss"] for line in watcher.lines]
            assert watcher.notes == []
        assert losses["compiled"] == pytest.approx(losses["eager"], rel=1e-3)

    yield check
    torch._dynamo.reset()


@pytest.fixture
def two_batches_at_most(monkeypatch):
    """Makes images many, and asserts that only a batch of them and the one before are floats at a time."""
    alive = []

    def watch(images, times):
        images.images, images.labels = (
            values.repeat(times, *[1] * (values.ndim - 1)) for values in (images.images, images.labels)
        )
        batches = images.in_order

        def watched(transform):
            for batch in batches(transform):
                alive.append(weakref.ref(batch.images))
                yield batch
                assert sum(image() is not None for image in alive) <= 2

        monkeypatch.setattr(images, "in_order", watched)

    yield watch
    assert len(alive) > 2
