"""Images that are there twice."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from helpers.oracles.duplicates import close_pairs, difference_hash
from tailcloud.data import open_dataset
from tailcloud.data.inspection import duplicates
from tailcloud.data.inspection.duplicates import DISTANCE, candidates, difference_hashes, find_duplicates

WORDS = st.integers(0, 2**64 - 1)


@pytest.fixture
def scenes():
    """Ten smooth pictures [10, 48, 48, 3] that look like nothing else."""
    random = np.random.RandomState(0)
    coarse = random.randint(0, 256, (10, 6, 6, 3), dtype=np.uint8)
    return np.stack([np.asarray(Image.fromarray(one).resize((48, 48), Image.Resampling.BICUBIC)) for one in coarse])


def saved_again(picture, *, quality=75, side=48, brighter=1.0):
    image = Image.fromarray(picture).resize((side, side)).point(lambda value: min(255, value * brighter))
    image.save(file := io.BytesIO(), "JPEG", quality=quality)
    return np.asarray(Image.open(file).resize((48, 48)))


@pytest.mark.parametrize("shape", [(16, 18, 3), (8, 8, 1), (13, 31, 3)])
def test_hashes_are_those_of_the_oracle(shape):
    images = np.random.RandomState(1).randint(0, 256, (4, *shape), dtype=np.uint8)
    bits = np.unpackbits(difference_hashes(images).view(np.uint8).reshape(-1, 8), axis=1)
    assert ["".join(map(str, row)) for row in bits.tolist()] == [difference_hash(image.tolist()) for image in images]


@settings(max_examples=50, deadline=None)
@given(
    base=st.lists(WORDS, min_size=1, max_size=6), flips=st.lists(st.sets(st.integers(0, 63), max_size=12), max_size=8)
)
def test_every_pair_of_close_hashes_is_met(base, flips):
    near = [base[0] ^ sum(1 << bit for bit in bits) for bits in flips]
    hashes = np.array([*base, *near], np.uint64)
    met = {tuple(sorted(pair)) for pairs, _ in candidates(hashes) for pair in pairs.tolist()}
    assert met == close_pairs(hashes, DISTANCE)


def test_copies_are_paired_with_the_first_of_them(scenes):
    found = find_duplicates([scenes[[0, 1, 0]], scenes[[2, 0]]])
    assert found.same.tolist() == [[0, 2], [0, 4]]
    assert found.near.tolist() == []


@pytest.mark.parametrize("options", [{}, {"quality": 30}, {"side": 96}, {"side": 24}, {"brighter": 1.2}])
def test_a_picture_saved_again_is_found(scenes, options):
    again = saved_again(scenes[3], **options)
    found = find_duplicates([scenes, again[None]])
    assert found.same.tolist() == []
    assert found.near.tolist() == [[3, 10]]


def test_what_cannot_be_seen_is_not_claimed(scenes):
    changed = [scenes[3][:, ::-1], np.rot90(scenes[3]), scenes[3][6:42, 6:42].repeat(2, 0).repeat(2, 1)[:48, :48]]
    found = find_duplicates([scenes, np.stack(changed)])
    assert len(found.same) == len(found.near) == 0


def test_pictures_of_one_colour_are_no_look_alikes():
    plain = np.full((5, 20, 20, 3), 7, np.uint8) + np.arange(5, dtype=np.uint8)[:, None, None, None]
    found = find_duplicates([plain, plain[:1]])
    assert found.flat == 6
    assert found.same.tolist() == [[0, 5]]
    assert len(found.near) == 0


def test_pairs_connect_to_sets(scenes):
    again = saved_again(scenes[3])
    found = find_duplicates([scenes, np.stack([again, again, scenes[3]])])
    assert found.sets(13).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 3, 3, 3]


def test_masses_of_look_alikes_are_not_all_compared(scenes, monkeypatch):
    monkeypatch.setattr(duplicates, "MAX_COMPARED", 3)
    crowd = np.repeat(scenes[:1], 30, axis=0)
    crowd[:, 0, 0, 0] = np.arange(30)
    assert find_duplicates([crowd]).curtailed
    assert not find_duplicates([scenes]).curtailed
    monkeypatch.setattr(duplicates, "MAX_COMPARED", 4000)
    monkeypatch.setattr(duplicates, "MAX_PAIRS", 50)
    found = find_duplicates([crowd])
    assert found.curtailed
    assert 50 < len(found.near) <= 50 + 30


def test_no_images_have_no_duplicates():
    found = find_duplicates([])
    assert (len(found.same), len(found.near), found.sets(0).tolist()) == (0, 0, [])


def test_handwriting_is_not_taken_for_copies():
    digits = open_dataset("digits-lt:1")
    found = find_duplicates([digits.train.images, digits.test.images])
    assert len(found.near) < 0.002 * (len(digits.train) + len(digits.test))
