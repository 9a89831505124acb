"""The page about embeddings: what it says, what it shows, and what it refuses."""

import json
import re
import shutil

import numpy as np
import pytest
import torch

from helpers.html_page import Page
from helpers.runs import run, small_recipe
from helpers.synthetic_runs import make_result
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.evaluation.embeddings import Embedding, centre_distance, nearest_centre_accuracy, spread
from tailcloud.reporting.embedding_page import EmbeddedRun, embedding_page, write_embedding
from tailcloud.reporting.figures.embedding_maps import select_images
from tailcloud.reporting.run_record import RunRecord
from tailcloud.runs.result import parse_result

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _no_tsne(monkeypatch):
    """t-SNE has tests of its own and takes seconds."""
    monkeypatch.setattr(
        "tailcloud.reporting.figures.embedding_maps.project", lambda features, seed: features[:, :2] / 20
    )


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    folder = tmp_path_factory.mktemp("baseline") / "run"
    run(folder, small_recipe(name="digits-lt/ce"))
    return folder


def embedded(classes, label="gcl", seed=0, **options):
    """A run of so many classes whose features are random clouds; the counts fall from many to few."""
    raw = make_result(classes, method=label, **options)
    result, random = parse_result(raw), np.random.default_rng(seed)
    centres = random.normal(size=(classes, 6)) * 3
    counts = {"train": result.dataset.counts, "test": [10] * classes}
    splits = {}
    for part, images in counts.items():
        labels = np.repeat(np.arange(classes), images)
        splits[part] = Embedding(centres[labels] + random.normal(size=(len(labels), 6)), labels, label == "gcl")
    unit = centre_distance(splits["train"], classes)
    spreads = {part: spread(splits[part], classes).divided(unit) for part in splits}
    near = {part: nearest_centre_accuracy(splits[part], splits["train"], classes) for part in splits}
    return EmbeddedRun(RunRecord("folder", result, (), ""), label, splits, spreads, near, unit)


def test_two_runs_side_by_side(baseline, finished_run, tmp_path):
    path = write_embedding([baseline, finished_run], tmp_path / "e.html", None, CPU)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert (page.tags.count("figure"), page.tags.count("h1")) == (4, 1)
    assert "Few-shot test images of digits-lt nearest to the centre of their own class: ce " in page.text
    assert "length 1 (cosine head)" in page.text
    assert "unscaled (linear head)" in page.text
    assert "Drawn: 311 training images and 500 test images of 10 classes" in page.text.replace("\u00a0", " ")
    assert "at most 100 training and 100 test images of a class" in page.text
    assert not re.search(r"https?://|@import|url\(", text)
    assert not re.search(r"\b[Nn]a[Nn]\b|\bNone\b|\binf\b", page.text)
    assert len(text) < 300_000


def test_the_same_command_writes_the_same_page(finished_run, tmp_path):
    first = write_embedding([finished_run], tmp_path / "a.html", None, CPU).read_bytes()
    assert write_embedding([finished_run], tmp_path / "b.html", None, CPU).read_bytes() == first


def test_one_run_has_its_page_in_its_folder(baseline):
    assert write_embedding([baseline], None, None, CPU) == baseline / "embedding.html"


def test_colours_are_those_of_the_classes_in_every_map():
    one = embedded(10)
    text = embedding_page([one, embedded(10, "ce", seed=1)])
    for drawing in re.findall(r"<figure.*?</figure>", text, re.DOTALL):
        drawn = {css: len(re.findall("M", path)) for css, path in re.findall(r'map (class-\d)" d="([^"]*)"', drawing)}
        dots = "dot map class" in drawing
        counts = one.run.result.dataset.counts
        assert list(drawn.values()) == [min(100, n) for n in counts] if dots else [10] * 10


@pytest.mark.parametrize("classes", [1, 2, 21, 130])
def test_few_and_many_classes_have_a_page(classes):
    text = embedding_page([embedded(classes)])
    page = Page(text)
    assert not re.search(r"\b[Nn]a[Nn]\b|\bNone\b|\binf\b", page.text)
    assert len(text) < 900_000
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_of_many_classes_both_ends_have_colours_and_the_tail_is_whole():
    one = embedded(130)
    selection = select_images(one.run.result, {part: one.splits[part].labels for part in one.splits})
    counts = one.run.result.dataset.counts
    assert len(selection.classes) == 100
    assert selection.coloured[:1] + selection.coloured[-1:] == [0, 129]
    assert len(selection.legend) == 11
    drawn = np.bincount(selection.labels["train"], minlength=130)
    assert all(drawn[c] == counts[c] for c in selection.classes if counts[c] < 20)


def test_measures_beside_the_map_are_the_means_of_the_groups():
    one = embedded(10)
    rows = dict(one.rows("test"))
    within = one.spreads["test"].within
    counts = np.array(one.run.result.dataset.counts)
    assert rows["few"][0] == f"{within[counts < 20].mean():.2f}"
    assert one.few_to_many_spread("test") == pytest.approx(within[counts < 20].mean() / within[counts > 100].mean())
    assert f"<td>{rows['few'][0]}</td>" in embedding_page([one])


def test_names_are_escaped():
    text = embedding_page([embedded(10, class_names=["<b>&"] * 10)])
    assert "<b>" not in text


def changed(folder, place, **dataset):
    shutil.copytree(folder, place)
    result = json.loads((place / "result.json").read_text())
    result["dataset"] |= dataset
    (place / "result.json").write_text(json.dumps(result))
    return place


def test_other_images_are_refused(baseline, finished_run, tmp_path):
    other = changed(finished_run, tmp_path / "other", fingerprint="feed", spec="digits-lt:10")
    with pytest.raises(
        UsageError, match=r"other was trained on digits-lt:10 with fingerprint feed, and .* of the same images"
    ):
        write_embedding([baseline, other], tmp_path / "e.html", None, CPU)
    with pytest.raises(TailcloudError, match=r"are not those that .*other was trained on .*--root"):
        write_embedding([other], None, None, CPU)


def test_an_unfinished_run_is_refused(finished_run, tmp_path):
    place = changed(finished_run, tmp_path / "unfinished")
    (place / "result.json").unlink()
    with pytest.raises(TailcloudError, match="unfinished run"):
        write_embedding([place], None, None, CPU)
