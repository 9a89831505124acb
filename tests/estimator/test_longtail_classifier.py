"""LongTailClassifier: fit, predict, save and load, on arrays, paths and folders, among scikit-learn's tools."""

import doctest
import io
import json
import pickle
import re
import runpy
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import tailcloud
from helpers.command_line import printed
from tailcloud import LongTailClassifier
from tailcloud.auto_recipe import timing
from tailcloud.data import open_dataset
from tailcloud.data.benchmarks.digits import all_digits
from tailcloud.errors import TailcloudError, TailcloudWarning, UsageError

ROOT = Path(__file__).parents[2]
WIDTH = {"model.width": 0.25}
THREADS = 2


@pytest.fixture(autouse=True, scope="module")
def _no_time_for_timing():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "MIN_TIMED_SECONDS", {"cpu": 0.001})
        yield


def small(method="ce", **parameters):
    return LongTailClassifier(method, **{"epochs": 2, "device": "cpu", "settings": WIDTH, **parameters})


@pytest.fixture(scope="module")
def digits():
    return open_dataset("digits-lt")


@pytest.fixture(scope="module")
def names():
    return np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


@pytest.fixture(scope="module")
def fitted(digits, names):
    """Tests must not change it."""
    return LongTailClassifier(epochs=30, device="cpu").fit(digits.train.images, names[digits.train.labels])


@pytest.fixture(scope="module")
def files(tmp_path_factory, digits):
    """Twelve images of each of three digits, as PNG files in class folders."""
    root = tmp_path_factory.mktemp("photos")
    for label in range(3):
        (root / f"digit{label}").mkdir()
        rows = np.flatnonzero(digits.test.labels == label)[:12]
        for row in rows:
            Image.fromarray(digits.test.images[row, ..., 0]).save(root / f"digit{label}" / f"{row}.png")
    paths = sorted(root.glob("*/*.png"))
    return root, paths, [path.parent.name for path in paths]


def test_it_learns_and_answers_in_the_callers_own_labels(fitted, digits, names):
    truth = names[digits.test.labels]
    assert fitted.classes_.tolist() == sorted(names)
    probabilities = fitted.predict_proba(digits.test.images)
    assert probabilities.shape == (500, 10)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)
    answers = fitted.predict(digits.test.images)
    assert (answers == fitted.classes_[probabilities.argmax(axis=1)]).all()
    assert fitted.score(digits.test.images, truth) == accuracy_score(truth, answers) > 0.75


def test_probabilities_are_those_of_the_module_in_any_batch(fitted, digits):
    expected = fitted.model_.predict_proba(torch.from_numpy(digits.test.images)).numpy()
    np.testing.assert_allclose(fitted.predict_proba(digits.test.images), expected, atol=1e-5)
    np.testing.assert_allclose(fitted.predict_proba(digits.test.images[:7]), expected[:7], atol=1e-5)


def test_a_prior_changes_probabilities_as_the_module_does(fitted, digits):
    prior = np.arange(1, 11)
    expected = fitted.model_.predict_proba(torch.from_numpy(digits.test.images), prior=prior).numpy()
    np.testing.assert_allclose(fitted.predict_proba(digits.test.images, prior=prior), expected, atol=1e-5)


@pytest.mark.parametrize("kind", [np.float32, np.uint16])
def test_floats_and_sixteen_bits_are_the_same_images(fitted, digits, kind):
    images = digits.test.images[:20, ..., 0]
    others = images.astype(np.uint16) * 257 if kind is np.uint16 else images.astype(kind) / 255
    np.testing.assert_array_equal(fitted.predict_proba(others), fitted.predict_proba(images))


def test_images_of_another_size_are_brought_to_the_models(fitted, digits):
    large = digits.test.images.repeat(4, axis=1).repeat(4, axis=2)
    assert (fitted.predict(large) == fitted.predict(digits.test.images)).mean() > 0.85


@pytest.mark.parametrize(
    "labels", [[7, -3], [True, False], ["ä", "b"], [2.0, 4.0], np.array([1, 9], np.uint8)], ids=str
)
def test_labels_of_any_kind_come_back_also_from_a_folder(labels, digits, tmp_path):
    chosen = np.flatnonzero(digits.train.labels < 2)
    given = np.array(labels)[digits.train.labels[chosen]]
    classifier = small(epochs=1).fit(digits.train.images[chosen], given)
    classifier.save(tmp_path / "kept")
    for one in (classifier, LongTailClassifier.load(tmp_path / "kept")):
        assert one.classes_.dtype == np.unique(given).dtype
        assert set(one.predict(digits.train.images[chosen]).tolist()) <= set(given.tolist())


def test_the_same_seed_gives_the_same_classifier(digits):
    images, labels = digits.train.images, digits.train.labels
    one, same, other = (small(seed=seed).fit(images, labels).predict_proba(images) for seed in (0, 0, 1))
    assert (one == same).all()
    assert not (one == other).all()


def test_a_tenth_is_held_out_and_calibrates_where_there_are_500_images():
    everything = all_digits()
    result = small(epochs=1).fit(everything.images, everything.labels).result_
    assert result["dataset"]["images"]["train"] + result["dataset"]["images"]["val"] == len(everything)
    assert result["dataset"]["images"]["test"] == result["dataset"]["images"]["val"] == 179
    assert result["calibrated"]["fitted_on"] == "val"
    assert "There is no test split: every figure is measured on the 179 held-out images" in result["remarks"][-1]


def test_what_its_second_stage_does_is_corrected_on_the_images_held_out(digits):
    classifier = small("gcl", epochs=2, validation_fraction=0.1).fit(digits.train.images, digits.train.labels)
    result = classifier.result_
    assert [stage["name"] for stage in result["stages"]] == ["stage1", "stage2", "stage3"]
    assert "the temperature and stage3 were fitted to" in " ".join(result["remarks"])
    assert "held-out images" in result["remarks"][-1]
    assert len(classifier.predict(digits.test.images[:7])) == 7
    kept = small("gcl", epochs=1, validation_fraction=0.1, settings={"stage3.head_transform": "keep"})
    remarks = kept.fit(digits.train.images, digits.train.labels).result_["remarks"]
    assert "on which the temperature was fitted too, and stages are compared" in " ".join(remarks)
    with pytest.raises(UsageError, match="has no validation split"):
        small(settings={"stage3.head_transform": "tuned-logit-adjust"}).fit(digits.train.images, digits.train.labels)


def test_where_nothing_is_held_out_the_result_says_that_it_is_of_training_images(fitted):
    assert fitted.result_["dataset"]["images"] == {"train": 331, "val": 0, "test": 331}
    assert fitted.model_.fitted_on is None
    assert (
        "measured on the training images, and does not say how well the model generalises"
        in fitted.result_["remarks"][-1]
    )


def test_the_best_epoch_is_not_picked_on_training_images(digits):
    classifier = small(settings={"selection": {"pick": "best"}}, validation_fraction=0.0)
    with pytest.raises(UsageError, match="needs held-out images"):
        classifier.fit(digits.train.images, digits.train.labels)
    picked = clone(classifier).set_params(validation_fraction=0.2).fit(digits.train.images, digits.train.labels)
    assert picked.result_["protocol"]["selection"] == "best on val"


def test_a_second_stage_is_in_proportion_to_the_epochs_asked_for(fitted):
    assert [stage["epochs"] for stage in fitted.result_["stages"]] == [30, 5]


def test_settings_go_before_parameters_with_dots_or_as_tables(digits):
    settings = {"stage1.epochs": 1, "model": {"width": 0.5}, "stage1": {"lr": 0.05}}
    result = small(epochs=np.int64(3), settings=settings).fit(digits.train.images, digits.train.labels).result_
    assert (result["stages"][0]["epochs"], result["model"]["width"]) == (1, 0.5)
    assert result["recipe"]["stage1"]["lr"] == 0.05


def test_paths_train_and_answer_like_the_pixels_in_them(files):
    _, paths, labels = files
    pixels = np.stack([np.asarray(Image.open(path)) for path in paths])
    by_path, by_pixel = small().fit(paths, labels), small().fit(pixels, labels)
    expected = by_pixel.predict_proba(pixels)
    np.testing.assert_array_equal(by_path.predict_proba([str(path) for path in paths]), expected)
    np.testing.assert_array_equal(by_path.predict_proba(np.array(paths, object)), expected)


def test_a_folder_has_labels_and_a_test_part_of_its_own(files):
    root, paths, labels = files
    classifier = small().fit(root)
    assert classifier.classes_.tolist() == ["digit0", "digit1", "digit2"]
    assert classifier.result_["dataset"]["images"] == {"train": 30, "val": 0, "test": 6}
    assert classifier.result_["dataset"]["spec"] == str(root)
    assert 0 <= classifier.score(paths, labels) <= 1


def test_size_decides_the_pixels_that_the_model_sees(files):
    _, paths, labels = files
    assert small(size=12).fit(paths, labels).model_.size == (12, 12)


def test_images_are_read_again_where_a_smaller_size_is_chosen():
    images = np.random.default_rng(0).integers(0, 256, (40, 80, 64, 3), dtype=np.uint8)
    small = LongTailClassifier("ce", weights="none", epochs=1, time_budget=0.001, device="cpu")
    classifier = small.fit(images, np.arange(40) % 2)
    assert classifier.model_.size == (32, 32)
    assert classifier.predict(images).shape == (40,)


def test_a_file_that_cannot_be_read_is_left_out_of_training_and_named(files, tmp_path):
    _, paths, labels = files
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    with pytest.warns(TailcloudWarning, match=r"1 of 37 images cannot be read .*broken.png"):
        classifier = small(epochs=1).fit([broken, *paths], ["digit0", *labels])
    assert classifier.result_["dataset"]["counts"] == [12, 12, 12]
    with pytest.raises(TailcloudError, match=r"broken.png cannot be read"):
        classifier.predict([broken])


@pytest.mark.filterwarnings("ignore::tailcloud.errors.TailcloudWarning")
def test_a_class_without_a_readable_file_is_an_error(files, tmp_path):
    _, paths, labels = files
    with pytest.raises(UsageError, match='no image of the class "lynx" can be read'):
        small().fit([*paths, tmp_path / "missing.png"], [*labels, "lynx"])


def test_cross_validation_grid_search_and_pipelines_work(digits):
    common = np.flatnonzero(digits.train.labels < 3)
    rows, labels = digits.train.images[common].reshape(-1, 64), digits.train.labels[common]
    pipeline = make_pipeline(FunctionTransformer(np.reshape, kw_args={"shape": (-1, 8, 8)}), small(epochs=1))
    scores = cross_val_score(pipeline, rows, labels, cv=2, scoring="balanced_accuracy", error_score="raise")
    assert scores.shape == (2,)
    search = GridSearchCV(small(), {"epochs": [1, 2]}, cv=2, error_score="raise").fit(rows.reshape(-1, 8, 8), labels)
    assert search.best_params_["epochs"] in {1, 2}
    assert search.predict(rows.reshape(-1, 8, 8)).shape == labels.shape


def test_cross_validation_takes_lists_of_paths(files):
    _, paths, labels = files
    assert cross_val_score(small(epochs=1), paths, labels, cv=2, error_score="raise").shape == (2,)


def test_the_module_can_still_be_trained_after_answers(fitted, digits):
    again = pickle.loads(pickle.dumps(fitted))
    again.predict(digits.test.images)
    images = again.model_.transform(torch.from_numpy(digits.test.images[:4]))
    again.model_.train()(images).sum().backward()
    assert any(parameter.grad is not None for parameter in again.model_.parameters())


def test_it_is_pickled_before_and_after_fitting(fitted, digits):
    assert pickle.loads(pickle.dumps(small())).get_params() == small().get_params()
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(digits.test.images), fitted.predict(digits.test.images))
    buffer = io.BytesIO()
    joblib.dump(fitted, buffer)
    buffer.seek(0)
    np.testing.assert_array_equal(joblib.load(buffer).classes_, fitted.classes_)


def test_a_clone_is_not_fitted(fitted, digits):
    for call in (clone(fitted).predict, clone(fitted).predict_proba, clone(fitted).save):
        with pytest.raises(NotFittedError):
            call(digits.test.images)


def test_saved_and_loaded_it_is_the_same_classifier(fitted, digits, tmp_path):
    fitted.save(tmp_path / "kept")
    again = LongTailClassifier.load(tmp_path / "kept")
    assert again.get_params() == fitted.get_params()
    assert again.result_ == fitted.result_
    np.testing.assert_array_equal(again.predict_proba(digits.test.images), fitted.predict_proba(digits.test.images))
    with pytest.raises(UsageError, match="exists already and is not overwritten"):
        fitted.save(tmp_path / "kept")
    again.save(tmp_path / "twice")
    kept, twice = ({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("kept", "twice"))
    assert kept == twice


def test_a_saved_classifier_is_a_run_folder(fitted, digits, tmp_path):
    fitted.save(tmp_path / "kept")
    assert tailcloud.load(tmp_path / "kept").class_names == fitted.classes_.tolist()
    Image.fromarray(digits.test.images[0, ..., 0]).save(tmp_path / "one.png")
    for words in (["predict", str(tmp_path / "kept"), str(tmp_path / "one.png")], ["report", str(tmp_path / "kept")]):
        printed(words)
    page = (tmp_path / "kept" / "report.html").read_text()
    assert "every figure is measured on the training images" in page


def test_the_classifier_of_any_run_loads(finished_run, digits):
    classifier = LongTailClassifier.load(finished_run)
    assert classifier.classes_.tolist() == [str(digit) for digit in range(10)]
    assert classifier.predict(digits.test.images).shape == (500,)


def test_out_keeps_the_run_and_is_never_overwritten(digits, tmp_path):
    out = tmp_path / "run"
    classifier = small(epochs=1, out=out).fit(digits.train.images, digits.train.labels)
    assert {"recipe.toml", "result.json", "report.html", "model.safetensors"} <= {file.name for file in out.iterdir()}
    assert (out / "recipe.toml").read_text().startswith("# LongTailClassifier(")
    with pytest.raises(TailcloudError, match="already holds a run"):
        classifier.fit(digits.train.images, digits.train.labels)


def test_without_out_nothing_stays_on_the_disk(digits, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    small(epochs=1).fit(digits.train.images, digits.train.labels)
    assert not list(tmp_path.iterdir())


def test_it_leaves_the_threads_of_the_process_alone(digits):
    torch.set_num_threads(THREADS)
    try:
        small(epochs=1).fit(digits.train.images, digits.train.labels)
        assert torch.get_num_threads() == THREADS
    finally:
        torch.set_num_threads(1)


def test_verbose_says_what_was_chosen(digits, capsys):
    small(epochs=1).fit(digits.train.images, digits.train.labels)
    assert capsys.readouterr().out == ""
    small(epochs=1, verbose=2).fit(digits.train.images, digits.train.labels)
    said = capsys.readouterr().out
    assert "Images are not flipped: nearest means recognise" in said
    assert "stage1 epoch 1: loss" in said


ROWS, GOOD, TWO = np.zeros((4, 64), np.uint8), np.zeros((4, 8, 8), np.uint8), [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("images", "labels", "sentence"),
    [
        (ROWS, TWO, r"X has the shape \(4, 64\).*make images of rows first"),
        (np.zeros((4, 8, 8, 2), np.uint8), TWO, r"images are \[N, H, W\] or \[N, H, W, 1 or 3\]"),
        (np.zeros((0, 8, 8), np.uint8), [], "X has the shape"),
        (GOOD.astype(np.int64), TWO, "X has the type int64"),
        (GOOD + 7.5, TWO, "X has floats from 7.5 to 7.5"),
        (np.full((4, 8, 8), np.nan), TWO, "X has floats from nan"),
        ([GOOD[0], GOOD[0, :4]], [0, 1], "X has images of different sizes"),
        (GOOD, None, "y is None"),
        (GOOD, [0, 1], "X has 4 images, and y has 2 labels"),
        (GOOD, [1, 1, 1, 1], "y has one class only, 1;"),
        (GOOD, np.array([0, "a", 0, "a"], object), "y has objects that are not all text"),
        (GOOD, [0.5, 1.5, 2.5, 0.1], "Unknown label type"),
        ("photos/", TWO, "photos/ has its own labels"),
        ("digits-lt", None, "digits-lt is not a folder"),
        ("not/there", None, "not/there does not exist"),
    ],
)
def test_what_cannot_be_trained_on_is_told_in_a_sentence(images, labels, sentence):
    with pytest.raises((TailcloudError, ValueError), match=sentence):
        small().fit(images, labels)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"method": "gcll"}, 'there is no method "gcll"; did you mean "gcl"'),
        ({"epochs": -1}, "stage1.epochs = -1"),
        ({"settings": ["stage1.lr"]}, "settings is .* should be a dictionary"),
        ({"settings": {"stage1.leanring": 1}}, "leanring"),
        ({"settings": {"data.group": "(a)"}}, "data.group is for a folder"),
        ({"time_budget": "soon"}, "soon"),
        ({"time_budget": -1}, "time_budget = -1"),
        ({"device": "abacus"}, "abacus"),
        ({"validation_fraction": 0.9}, "selection.split = 0.9"),
    ],
)
def test_wrong_parameters_are_told_when_fitting(parameters, sentence):
    with pytest.raises(TailcloudError, match=sentence):
        small(**parameters).fit(GOOD, TWO)


def test_images_that_do_not_fit_the_model_are_refused(fitted):
    with pytest.raises(UsageError, match="3 channels, and the model was fitted on 1"):
        fitted.predict(np.zeros((2, 8, 8, 3), np.uint8))
    with pytest.raises(UsageError, match='X is the path "photos"'):
        fitted.predict("photos")


@pytest.mark.parametrize(
    "change",
    [
        {"classes": ["a"] * 10},
        {"classes": ["a", "b"]},
        {"classes": [{}] * 10},
        {"kind": "object"},
        {"kind": "V1000000000000"},
        {"kind": "int8", "classes": list(range(1000, 1010))},
        {"parameters": {"__class__": "x"}},
        {"parameters": []},
    ],
    ids=str,
)
def test_a_folder_from_a_stranger_is_refused_or_harmless(change, fitted, tmp_path):
    fitted.save(tmp_path / "kept")
    file = tmp_path / "kept" / "estimator.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(TailcloudError, match=r"damaged|another version"):
        LongTailClassifier.load(tmp_path / "kept")


def test_a_stranger_does_not_say_where_a_run_is_written(fitted, tmp_path):
    fitted.save(tmp_path / "kept")
    file = tmp_path / "kept" / "estimator.json"
    said = json.loads(file.read_text())
    said["parameters"]["out"] = str(tmp_path / "elsewhere")
    file.write_text(json.dumps(said))
    assert LongTailClassifier.load(tmp_path / "kept").out is None


def test_the_example_in_the_docstring_runs():
    import tailcloud.estimator.longtail_classifier as module

    outcome = doctest.testmod(module)
    assert outcome.attempted >= 5
    assert not outcome.failed


@pytest.mark.slow
def test_the_example_of_the_guide_is_the_file_and_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    example = ROOT / "examples" / "estimator.py"
    page = (ROOT / "docs" / "python.md").read_text()
    block = re.search(r"```python\n(import tempfile.*?)```", page, re.DOTALL).group(1)
    assert block == example.read_text().partition('"""\n\n')[2]
    runpy.run_path(str(example), run_name="__main__")
    assert float(re.search(r"^accuracy (\S+)", capsys.readouterr().out, re.MULTILINE).group(1)) > 0.75
