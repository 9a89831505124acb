"""What tests of training share."""

import weakref

import pytest

from tailcloud.training import checkpoint_policy


@pytest.fixture
def every_step(monkeypatch):
    """Saving takes no time that would have to be made good."""
    monkeypatch.setattr(checkpoint_policy, "MIN_TRAINING_PER_SAVE", 0)


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
