"""The worst tail classes on a page: which they are, what they are confused with, and their images."""

import base64
import io
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import save_file

from helpers.html_page import Page
from helpers.synthetic_runs import make_result, write_examples, write_run
from tailcloud.errors import TailcloudError
from tailcloud.reporting import write_report
from tailcloud.reporting.image_uri import encode_png
from tailcloud.reporting.worst_classes import worst_classes
from tailcloud.runs.result import parse_result

COUNTS = [300, 50, 12, 9, 3]


def small_result(**changes):
    result = make_result(5, counts=COUNTS, class_names=["cat", "dog", "owl", "eel", "fly"])
    result |= {"per_class": [90.0, 80.0, 40.0, 100.0, 10.0]}
    result["confusion"] = [[4, 4, 1], [4, 0, 6], [4, 1, 3], [2, 2, 4], [2, 4, 6], [0, 1, 5]]
    return result | changes


@given(st.integers(1, 6), st.integers(1, 9), st.integers(1, 9), st.randoms(use_true_random=False))
def test_a_png_shows_the_pixels_that_went_in(channels, height, width, random):
    picture = np.array([random.randrange(256) for _ in range(height * width * channels)], dtype=np.uint8)
    picture = picture.reshape(height, width, channels)
    shown = np.asarray(Image.open(io.BytesIO(encode_png(picture))))
    expected = picture if channels <= 4 else picture.mean(axis=2, keepdims=True).round()
    assert (shown.reshape(height, width, -1) == expected).all()


def test_the_worst_classes_come_with_their_confusions():
    worst = worst_classes(parse_result(small_result()), {})
    assert [(one.index, one.accuracy) for one in worst] == [(4, 10.0), (2, 40.0)]
    assert [(error.predicted, error.count, error.share) for error in worst[0].confusions] == [
        (0, 6, 60.0),
        (1, 3, 30.0),
    ]


def test_a_tail_that_is_always_right_has_no_worst_classes(tmp_path):
    result = small_result(per_class=[90.0, 80.0, 100.0, 100.0, None])
    text = write_report([write_run(tmp_path / "run", result)]).read_text(encoding="utf-8")
    assert 'id="worst"' not in text
    assert worst_classes(parse_result(small_result(per_class=[])), {}) == []


def test_the_page_shows_the_images_and_their_names(tmp_path):
    run = write_run(tmp_path / "run", small_result())
    kept = write_examples(run, [(4, 0), (4, 1), (2, 4)])
    text = write_report([run]).read_text(encoding="utf-8")
    page = Page(text)
    assert "The worst few-shot classes fly 3 training images 10.0 % correct" in page.text
    assert "predicted instead: cat (60.0 %) , dog (30.0 %)" in page.text
    shown = re.findall(r'<img src="data:image/png;base64,([^"]+)" alt="A test image of (\w+)"', text)
    assert [name for _, name in shown] == ["fly", "fly", "owl"]
    for (content, _), picture in zip(shown, kept["images"], strict=True):
        assert (np.asarray(Image.open(io.BytesIO(base64.b64decode(content)))) == picture[:, :, 0]).all()


def test_a_thousand_classes_with_photographs_stay_below_five_megabytes(tmp_path):
    result = make_result(1000)
    run = write_run(tmp_path / "run", result)
    worst = [one.index for one in worst_classes(parse_result(result), {})]
    write_examples(run, [(index, 0) for index in worst for _ in range(6)], (64, 64, 3))
    assert len(write_report([run]).read_bytes()) < 5_000_000


@pytest.mark.parametrize(
    "damage",
    [
        {"images": np.zeros((2, 8, 8), np.uint8)},
        {"images": np.zeros((2, 8, 8, 1), np.float32)},
        {"images": np.zeros((2, 4000, 8, 1), np.uint8)},
        {"images": np.zeros((2, 0, 8, 1), np.uint8)},
        {"images": np.zeros((3, 8, 8, 1), np.uint8)},
        {"images": np.zeros((2, 1500, 1500, 1), np.uint8)},
        {"true": np.array([0, 5])},
        {"predicted": np.array([0, -1])},
        {"predicted": np.array([0.0, 1.0])},
        {"true": np.array([[0], [1]])},
    ],
    ids=lambda damage: " ".join(f"{name} {value.shape} {value.dtype}" for name, value in damage.items()),
)
def test_foreign_examples_are_refused_by_a_sentence(tmp_path, damage):
    run = write_run(tmp_path / "run", small_result())
    save_file(write_examples(run, [(4, 0), (4, 1)]) | damage, run / "examples.safetensors")
    with pytest.raises(TailcloudError, match=r"examples\.safetensors is damaged .* delete it"):
        write_report([run])


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, json.dumps({"images": []}).encode(), b"\0" * 5_000_000])
def test_a_file_that_holds_no_examples_is_refused_by_a_sentence(tmp_path, content):
    run = write_run(tmp_path / "run", small_result())
    (run / "examples.safetensors").write_bytes(content)
    with pytest.raises(TailcloudError, match=r"examples\.safetensors is damaged"):
        write_report([run])
