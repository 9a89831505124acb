"""A command that chooses a recipe reads each header once and decodes each image once, at the chosen size."""

from collections import Counter

import numpy as np
import pytest
from PIL import Image

from helpers.drawing import draw_classes
from tailcloud.data import open_dataset
from tailcloud.data.file_images import FileImages
from tailcloud.errors import TailcloudError
from tailcloud.launch.run_data import clear_data_cache, open_for_choice, open_whole
from tailcloud.recipe import load_recipe


@pytest.fixture
def photos(tmp_path):
    clear_data_cache()
    yield draw_classes(tmp_path / "photos", {"cat": 30, "lynx": 12}, size=(40, 30))
    clear_data_cache()


@pytest.fixture
def reads(monkeypatch):
    """How often each file is opened, and decoded."""
    opened, decoded, real_open, real_read = Counter(), Counter(), Image.open, FileImages.read
    monkeypatch.setattr(Image, "open", lambda path, **options: opened.update([path]) or real_open(path, **options))
    monkeypatch.setattr(FileImages, "read", lambda self, row: decoded.update([self.path(row)]) or real_read(self, row))
    return opened, decoded


def recipe_for(photos, **data):
    return load_recipe(None, [{"data": {"spec": str(photos), **data}}])


def test_nothing_is_decoded_before_the_size_is_known(photos, reads):
    opened, decoded = reads
    chosen_from = open_for_choice(recipe_for(photos))
    assert not decoded
    assert set(opened.values()) == {1}
    trained_on = open_whole(recipe_for(photos, size=20, fit="pad"))
    open_whole(recipe_for(photos, size=20, fit="pad"))
    assert set(decoded.values()) == {1}
    assert set(opened.values()) == {2}  # its header, its pixels
    assert len(decoded) == 42
    assert chosen_from.profile.counts.tolist() == trained_on.profile.counts.tolist()
    assert not chosen_from.train.streamed
    assert chosen_from.native_ratio == 0.75


def test_large_classes_that_are_limited_after_decoding_are_those_of_a_plain_reader(photos, reads):
    """A machine that turns slower leaves images out; nothing is decoded again for it."""
    _, decoded = reads
    open_for_choice(recipe_for(photos))
    whole = open_whole(recipe_for(photos, size=20))
    decoded.clear()
    limited = recipe_for(photos, size=20, max_count=15)
    afterwards = open_whole(limited)
    assert not decoded
    assert afterwards.profile.counts.tolist() == [15, 10]
    assert len(afterwards.test) == len(whole.test)
    clear_data_cache()
    plain = open_whole(limited)
    assert afterwards.fingerprint == plain.fingerprint
    assert (afterwards.mean, afterwards.std) == (plain.mean, plain.std)
    assert set(afterwards.remarks) == set(plain.remarks)
    assert len(decoded) == 25 + len(whole.test)


def test_the_images_are_those_of_a_plain_reader(photos):
    open_for_choice(recipe_for(photos))
    recipe = recipe_for(photos, size=20, fit="squash")
    trained_on, plain = open_whole(recipe), open_dataset(str(photos), options=recipe.data.read_options)
    assert np.array_equal(trained_on.train.pixels, plain.train.pixels)
    assert trained_on.fingerprint == plain.fingerprint
    assert trained_on.remarks == plain.remarks
    some, rows = open_for_choice(recipe).train.some(np.array([5, 0]))
    assert np.array_equal(some, plain.train.pixels[[5, 0]])
    assert rows.tolist() == [5, 0]


def test_files_that_change_between_two_calls_are_read_again(photos):
    open_for_choice(recipe_for(photos))
    clear_data_cache()
    (photos / "cat" / "0.png").unlink()
    dataset = open_whole(recipe_for(photos, size=20))
    assert len(dataset.train) + len(dataset.test) == 41


def test_too_many_unreadable_files_are_refused_before_a_choice(photos):
    for number in range(4):
        (photos / "cat" / f"{number}.png").write_bytes(b"")
    with pytest.raises(TailcloudError, match=r"4 of 42 images \(10 %, more than 5 %\) cannot be read: cat/0.png"):
        open_for_choice(recipe_for(photos))
