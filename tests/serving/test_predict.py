"""Files become answers: in order, calibrated, in bounded memory, and whatever the files are."""

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import tailcloud
from tailcloud.calibration.priors import train_prior
from tailcloud.data import open_dataset
from tailcloud.errors import UsageError
from tailcloud.serving import predict
from tailcloud.serving.image_paths import check_paths, find_images
from tailcloud.serving.predict import in_threads, predict_files


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Forty digits as PNG files."""
    folder = tmp_path_factory.mktemp("pictures")
    images = open_dataset("digits-lt").test.images[::12][:40]
    for number, image in enumerate(images):
        Image.fromarray(image[..., 0]).save(folder / f"{number:02}.png")
    return folder, images


@pytest.mark.parametrize("prior", [None, "train"])
def test_answers_are_the_models_own_probabilities_in_order(finished_run, pictures, monkeypatch, prior):
    monkeypatch.setattr(predict, "BATCH", 16)
    folder, images = pictures
    model = tailcloud.load(finished_run)
    model.temperature = 1.7
    expected = None if prior is None else train_prior(model.counts)
    probabilities = model.predict_proba(torch.from_numpy(images), expected)
    answers = list(predict_files(model, sorted(folder.iterdir()), top=3, prior=expected))
    assert [answer.path.name for answer in answers] == [f"{number:02}.png" for number in range(40)]
    values, classes = probabilities.topk(3, dim=1)
    for answer, row, sure in zip(answers, classes.tolist(), values.tolist(), strict=True):
        assert [name for name, _ in answer.top] == [model.class_names[c] for c in row]
        assert [p for _, p in answer.top] == pytest.approx(sure, abs=1e-5)


def test_what_cannot_be_read_is_answered_with_an_error_and_stops_nothing(finished_run, pictures, tmp_path):
    folder, _ = pictures
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "short.png").write_bytes((folder / "00.png").read_bytes()[:60])
    Image.new("1", (10_000, 10_000)).save(tmp_path / "bomb.png")
    names = ["text.png", "short.png", "bomb.png", "missing.png", "x" * 300 + ".png", "nul\0.png", "."]
    paths = [tmp_path / name for name in names] + [folder / "00.png"]
    *bad, good = predict_files(tailcloud.load(finished_run), paths)
    assert all(answer.error and not answer.top for answer in bad)
    assert "89,478,485" in bad[2].error
    assert good.error is None
    assert good.top


def test_nothing_to_read_gives_nothing(finished_run):
    assert list(predict_files(tailcloud.load(finished_run), [])) == []


def test_at_most_so_many_files_are_under_way_however_many_there_are():
    started, most = 0, 0

    def paths():
        nonlocal started
        for number in range(1000):
            started += 1
            yield Path(str(number))

    for taken, (path, result) in enumerate(in_threads(str, paths(), 10), start=1):
        assert path == Path(str(taken - 1)) == Path(result)
        most = max(most, started - taken)
    assert (started, taken) == (1000, 1000)
    assert most <= 10


def test_threads_end_when_nobody_listens_any_more():
    before = threading.active_count()
    answers = in_threads(str, map(Path, map(str, range(1000))), 10)
    next(answers)
    answers.close()
    assert threading.active_count() == before


def test_colours_and_sizes_are_the_models_business(finished_run, tmp_path):
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 50, 3), np.uint8)).save(tmp_path / "photo.jpg")
    (answer,) = predict_files(tailcloud.load(finished_run), [tmp_path / "photo.jpg"], top=99)
    assert len(answer.top) == 10
    assert sum(p for _, p in answer.top) == pytest.approx(1, abs=1e-5)


@pytest.fixture
def tree(tmp_path):
    for name in ["b/2.JPG", "b/1.png", "a/3.png", "a/.hidden.png", ".git/4.png", "a/notes.txt", "5.png"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "a" / "loop").symlink_to(tmp_path, target_is_directory=True)
    return tmp_path


def test_folders_patterns_and_lists(tree, monkeypatch):
    monkeypatch.chdir(tree)

    def found(*paths, listed=()):
        with (tree / "list").open("w+") as stream:
            stream.write("\n".join(listed))
            stream.seek(0)
            return [path.as_posix() for path in find_images(paths, stream)]

    assert found(".") == ["5.png", "a/3.png", "b/1.png", "b/2.JPG"]
    assert found("b/*") == ["b/1.png", "b/2.JPG"]
    assert found("a") == ["a/3.png"]
    assert found("a/notes.txt", "b") == ["a/notes.txt", "b/1.png", "b/2.JPG"]
    assert found("5.png", "-", listed=["any where.png", "", "b"]) == ["5.png", "any where.png", "b"]


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        ([], "nothing to predict"),
        (["nowhere.png"], "nowhere.png does not exist"),
        (["*.tif"], r'nothing matches "\*.tif"'),
        (["empty"], "empty holds no image"),
        (["-", "-"], "more than once"),
    ],
)
def test_names_that_mean_nothing_are_refused_first(tree, monkeypatch, paths, said):
    monkeypatch.chdir(tree)
    (tree / "empty").mkdir()
    with pytest.raises(UsageError, match=said):
        check_paths(paths)
