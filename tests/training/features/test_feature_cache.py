"""The cache of features on disk."""

import os
from pathlib import Path

import numpy as np
import pytest

from tailcloud.training.features.feature_cache import FeatureCache, default_folder, pixel_digests


def images(count, seed=0):
    return np.random.RandomState(seed).randint(0, 256, (count, 4, 4, 3), np.uint8)


def test_the_default_folder_follows_the_environment(monkeypatch):
    monkeypatch.setenv("TAILCLOUD_CACHE", "/one")
    monkeypatch.setenv("XDG_CACHE_HOME", "/two")
    assert default_folder() == Path("/one/features")
    monkeypatch.delenv("TAILCLOUD_CACHE")
    assert default_folder() == Path("/two/tailcloud/features")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_folder() == Path.home() / ".cache" / "tailcloud" / "features"


def test_features_are_found_by_the_pixels_of_their_image_in_whatever_order(tmp_path):
    cache = FeatureCache(tmp_path, pytest.fail)
    pixels = images(5)
    features = np.arange(10, dtype=np.float16).reshape(5, 2)
    cache.store("key", pixel_digests(pixels[:3]), features[:3])
    cache.store("key", pixel_digests(pixels[3:]), features[3:])
    asked = np.concatenate([images(1, seed=1), pixels[[4, 0]]])
    found, values = cache.load("key", 2).find(pixel_digests(asked))
    assert found == [1, 2]
    assert np.array_equal(values, features[[4, 0]])
    assert cache.load("other", 2).find(pixel_digests(pixels))[0] == []


def test_features_of_another_length_are_noted_and_not_used(tmp_path):
    notes = []
    cache = FeatureCache(tmp_path, notes.append)
    cache.store("key", pixel_digests(images(1)), np.zeros((1, 2), np.float16))
    assert cache.load("key", 3).find(pixel_digests(images(1)))[0] == []
    assert "is damaged; it is removed" in notes[0]
    assert list(tmp_path.glob("key/*")) == []


def test_the_files_that_were_used_least_recently_are_removed(tmp_path):
    size = 10_000
    cache = FeatureCache(tmp_path, pytest.fail, limit=3 * 2 * size + 5000)
    for age, key in enumerate(["old", "used", "new"]):
        cache.store(key, pixel_digests(images(1)), np.zeros((1, size), np.float16))
        (file,) = (tmp_path / key).glob("*")
        os.utime(file, (1000 + age, 1000 + age))
    assert cache.load("old", size).rows  # now it is the newest
    cache.store("more", pixel_digests(images(1)), np.zeros((1, size), np.float16))
    assert {path.parent.name for path in tmp_path.glob("*/*")} == {"old", "new", "more"}


def test_only_one_process_at_a_time_computes_the_same(tmp_path):
    cache = FeatureCache(tmp_path, pytest.fail)
    with cache.exclusive("key"):
        held = os.open(tmp_path / "key.lock", os.O_RDWR)
        import fcntl

        with pytest.raises(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(held)
