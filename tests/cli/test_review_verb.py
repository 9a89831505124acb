"""``tailcloud review``: wrong labels that were put there are found, and the list can be trained on."""

import csv
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers.bad_inputs import command
from helpers.command_line import printed
from tailcloud.launch.run_data import clear_data_cache
from tailcloud.review.confident_learning import HeldOutPredictions
from tailcloud.review.review_items import ReviewItem
from tailcloud.review.server import ReviewServer

QUICK = "--set stage1.epochs=1 --set model.width=0.25 --set data.size=16 --device cpu"
ROWS, COLUMNS = np.mgrid[:64, :64]
PATTERNS = {
    "stripes": lambda step: (ROWS // step) % 2,
    "checks": lambda step: (ROWS // step + COLUMNS // step) % 2,
    "rings": lambda step: (np.hypot(ROWS - 32, COLUMNS - 32) // step) % 2,
}


def paint(path, pattern, random, brighter=0.0):
    path.parent.mkdir(parents=True, exist_ok=True)
    dark, light = random.rand(3) * 90, 160 + random.rand(3) * 60
    shape = PATTERNS[pattern](random.randint(4, 9))[..., None]
    pixels = np.where(shape, light, dark) + random.randn(64, 64, 3) * 8
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(path)
    if brighter:
        brightened = np.clip(pixels + brighter, 0, 255).astype(np.uint8)
        Image.fromarray(brightened).save(path.parents[1] / "checks" / "copy.png")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder of patterns with a wrong label in its rarest class and a copy in another class, and a run on it."""
    home, random = tmp_path_factory.mktemp("review"), np.random.RandomState(0)
    for name, count in {"stripes": 14, "checks": 10, "rings": 5}.items():
        for number in range(count):
            paint(home / "photos" / name / f"{number}.png", name, random)
    paint(home / "photos" / "rings" / "wrong.png", "stripes", random)
    paint(home / "photos" / "stripes" / "original.png", "stripes", random, brighter=6.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        code, said = command(f"train own/ce --data photos --out run {QUICK}")
    assert code == 0, said
    return home


@pytest.fixture
def here(home, tmp_path, monkeypatch):
    """A copy of that folder as the working folder."""
    shutil.copytree(home, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def unpredicted(monkeypatch):
    """No head is trained: every label is as probable as any other class."""

    def predict(_recipe, dataset, *_):
        images = sum(len(split) for split in (dataset.train, dataset.val, dataset.test) if split)
        alike = np.full(images, 1 / dataset.classes)
        return HeldOutPredictions(alike, np.zeros(images, np.int64), alike, np.zeros(images, bool))

    monkeypatch.setattr("tailcloud.review.review.predict_held_out", predict)


def call(words):
    clear_data_cache()  # a command is usually a process of its own
    return printed(words)


def listed(file):
    with Path(file).open(newline="") as lines:
        return list(csv.DictReader(lines))


def snapshot(folder):
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}


def deciding(monkeypatch, *bodies):
    """Decide in the place of a person, and press Ctrl-C."""

    def serve(server):
        for body in bodies:
            place = next(n for n, item in enumerate(server.items) if server.images.names[item.image] == body["name"])
            server.decide({**body, "item": place, "image": server.items[place].image})
        raise KeyboardInterrupt

    monkeypatch.setattr(ReviewServer, "serve_forever", serve)


def test_wrong_labels_are_found_without_a_browser(here, monkeypatch):
    monkeypatch.setattr("tailcloud.review.cross_validation.head_epochs", lambda *_: 40)
    before = snapshot(here / "photos")
    said = call("review run --csv suspects.csv --device cpu")
    first, *_ = rows = listed("suspects.csv")
    assert (Path(first["path"]).name, first["label"], first["suggested"]) == ("wrong.png", "rings", "stripes")
    assert first["kind"] == "label"
    assert float(first["label_probability"]) < float(first["probability"])
    pairs = [{Path(row["path"]).name, Path(row["other"]).name} for row in rows if row["kind"] == "near"]
    assert {"original.png", "copy.png"} in pairs
    assert "of 32\u00a0labels are doubtful; most of these are right" in said
    lines = [line.split() for line in said.splitlines() if line.startswith(("wrong.png", "original.png", "copy.png"))]
    assert ["rings", "stripes", "stripes"] in [line[2:5] for line in lines]  # label, suggested, and its probability
    assert ["two", "labels:", "nearly", "the", "same", "as"] in [line[4:10] for line in lines]
    assert "suspects.csv" in said
    assert snapshot(here / "photos") == before
    assert not (here / "run" / "review.csv").exists()


def test_the_reviewed_list_is_trained_on_from_another_folder(here, monkeypatch, tmp_path):
    before = snapshot(here / "photos")
    name = "rings/wrong.png"
    monkeypatch.setattr("tailcloud.review.cross_validation.head_epochs", lambda *_: 40)
    deciding(monkeypatch, {"name": name, "action": "relabel", "label": 2})
    said = call("review run --device cpu")
    assert "http://127.0.0.1:" in said
    assert "0 kept, 1 relabelled, 0 dropped" in said
    again = f"tailcloud train --data {here / 'run' / 'review.csv'}"
    assert again in said.splitlines()
    assert snapshot(here / "photos") == before
    deciding(monkeypatch)
    assert "0 kept, 1 relabelled, 0 dropped" in call("review run --device cpu")  # it goes on
    rows = listed("run/review.csv")
    assert len(rows) == 32
    assert {row["split"] for row in rows} == {"train", "test", "val"}
    assert [row["label"] for row in rows if row["path"].endswith(name)] == ["stripes"]
    monkeypatch.chdir(tmp_path)
    said = call(f"train own/ce {again.removeprefix('tailcloud train ')} --out second {QUICK}")
    assert "no test split" not in said


@pytest.mark.usefixtures("unpredicted")
def test_images_that_the_run_left_out_are_in_the_list(here, monkeypatch):
    call(f"train own/ce --data photos --out small {QUICK} --set data.max_count=4")
    deciding(monkeypatch, {"name": "checks/copy.png", "action": "keep"})
    said = call("review small --device cpu")
    assert re.search("The run left out [0-9]+\u00a0images", said)
    assert "has changed" not in said
    rows = listed("small/review.csv")
    assert {Path(row["path"]) for row in rows} == set((here / "photos").rglob("*.png"))
    assert {row["label"] for row in rows if Path(row["path"]).parent.name == "stripes"} == {"stripes"}
    result = json.loads(Path("small/result.json").read_text())["dataset"]["images"]
    splits = Counter(row["split"] for row in rows)
    assert splits["test"] == result["test"]
    assert splits["train"] > result["train"]


def pair_of_two_splits(monkeypatch, items):
    """Show only pairs of one label, so often."""
    from tailcloud.review import review

    def only_pairs(images, *_):
        train, test = (images.splits.index(split) for split in ("train", "test"))
        return [ReviewItem(train, int(images.labels[train]), 0.5, 0.5, test, exact=True)] * items

    monkeypatch.setattr(review, "review_items", only_pairs)


@pytest.mark.usefixtures("unpredicted", "here")
def test_the_table_says_why_and_how_many_more_there_are(monkeypatch):
    pair_of_two_splits(monkeypatch, 23)
    said = call("review run --csv suspects.csv --device cpu")
    assert "0 of 32\u00a0labels are doubtful\n" in said
    assert "two splits (test): the same as" in said
    assert "and 3 more" in said
    assert "23\u00a0pairs of (nearly) the same images have different labels, or images in different splits" in said


@pytest.mark.usefixtures("unpredicted")
def test_images_that_moved_are_found_again(here):
    Path("photos").rename("elsewhere")
    code, said = command("review run --device cpu")
    assert code == 1
    assert f"photos, with the images of run, does not exist in {here}; pass where it is now with --data" in said
    said = call("review run --data elsewhere --csv suspects.csv --device cpu")
    assert "has changed" not in said


@pytest.mark.usefixtures("unpredicted")
def test_images_that_changed_are_said(here):
    Image.new("RGB", (64, 64), "red").save("photos/stripes/new.png")
    said = call("review run --csv suspects.csv --device cpu")
    assert "photos has changed since run was trained" in said


@pytest.mark.usefixtures("unpredicted")
def test_nothing_suspicious_is_said(here):
    Path("photos/checks/copy.png").unlink()
    said = call("review run --device cpu")
    assert "Nothing suspicious was found" in said
    assert not Path("run/review.csv").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("review nothing", "nothing holds no run: there is no such folder"),
        ("review run --out photos/list.csv", "writes nothing to the folder of the images"),
        ("review run --out list.txt", "must end in .csv"),
        ("review run --out here.csv", "here.csv exists already and is not of a review"),
        ("review run --csv here.csv", "here.csv exists already"),
        ("review run --data cifar10-lt:100", "whose images are not files of their own"),
    ],
)
def test_what_cannot_be_reviewed_is_refused(here, words, sentence):
    Path("here.csv").write_text("path,label\n")
    code, said = command(words)
    assert code != 0
    assert sentence in said
    assert Path("here.csv").read_text() == "path,label\n"


def test_a_run_on_arrays_is_refused(finished_run):
    code, said = command(f"review {finished_run}")
    assert code == 2
    assert "digits-lt, whose images are not files of their own" in said
