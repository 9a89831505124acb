"""``tailcloud evaluate``: on a run's own test images, and on the labelled images that a user has now."""

import json
import shutil
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file, save_file
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from helpers.bad_inputs import command
from tailcloud.cli import app
from tailcloud.launch.evaluation_data import trained_files
from tailcloud.launch.run_data import clear_data_cache
from tailcloud.runs.folder import RunFolder

TRAINED, SEASON = (40, 30, 20, 12, 6), (9, 7, 5, 3, 0)
DIGITS = load_digits()


def save_digits(place, digit, first, count, name=None):
    """PNG files of a digit, counted from ``first``, in a class folder."""
    folder = Path(place, name or f"digit {digit}")
    folder.mkdir(parents=True, exist_ok=True)
    for number in np.flatnonzero(DIGITS.target == digit)[first : first + count]:
        image = Image.fromarray((DIGITS.images[number] * 15).astype(np.uint8))
        image.resize((20, 24)).save(folder / f"{number}.png")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A trained run, and images of a later season: other images of four of the five classes."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        for digit, (trained, new) in enumerate(zip(TRAINED, SEASON, strict=True)):
            save_digits("photos", digit, 0, trained)
            save_digits("season", digit, 100, new)
        shutil.rmtree("season/digit 4")
        settings = "--set stage1.epochs=3 --set model.width=0.25 --set data.size=16 --set selection.split=0.3"
        Path("said.txt").write_text(printed(f"train own/ce --data photos --out run {settings}"))
    return home


@pytest.fixture
def place(home, tmp_path, monkeypatch):
    """A copy of the folders, which a test may change."""
    for name in ("photos", "season", "run"):
        shutil.copytree(home / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(words):
    """What a command that ends well prints on standard output."""
    clear_data_cache()  # a command is a process of its own
    result = CliRunner().invoke(app, [*words.split(), "--device", "cpu"])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def figures(words):
    return json.loads(printed(f"evaluate run --json {words}"))


def refusal(words):
    code, said = command(f"evaluate run --device cpu {words}")
    assert code != 0, said
    return " ".join(said.replace("\u00a0", " ").split())


def notes(found):
    return " ".join(found["remarks"]).replace("\u00a0", " ")


def test_every_labelled_image_is_used_and_missing_classes_are_named(place):
    found = figures("--data season")
    assert found["images"] == sum(SEASON) == 24
    assert found["test_counts"] == list(SEASON)
    assert found["class_names"] == [f"digit {digit}" for digit in range(5)]
    assert found["per_class"][4] is None
    assert None not in found["per_class"][:4]
    assert not found["own_test_images"]
    assert "1 of 5 classes have no image here, and no figure of their own: class digit 4." in notes(found)


def test_an_image_gets_the_prediction_that_predict_gives_it(place):
    hits = dict.fromkeys(range(5), 0)
    for line in printed("predict run season --json").splitlines():
        answer = json.loads(line)
        name = Path(answer["file"]).parent.name
        hits[int(name[-1])] += answer["prediction"] == name
    expected = [100 * hits[digit] / count if count else None for digit, count in enumerate(SEASON)]
    assert figures("--data season")["per_class"] == pytest.approx(expected)


@pytest.mark.parametrize("split", ["test", "val", "Validation"])
def test_a_folder_with_one_split_only(place, split):
    Path("only").mkdir()
    Path("season").rename(f"only/{split}")
    assert figures("--data only")["images"] == 24


def test_of_named_splits_the_test_split_is_used_and_a_note_says_so(place):
    save_digits("both/train", 0, 110, 3)
    Path("season").rename("both/test")
    found = figures("--data both")
    assert found["test_counts"] == list(SEASON)
    assert 'both names splits: the 24 images of "test" are used, and 3 other images not.' in notes(found)


def test_classes_are_matched_by_name_not_by_position(place):
    before = figures("--data season")
    shutil.rmtree("season/digit 0")
    after = figures("--data season")
    assert after["per_class"][0] is None
    assert after["per_class"][1:] == before["per_class"][1:]


def test_unknown_classes_are_named_and_left_out_only_if_asked(place):
    before = figures("--data season")
    save_digits("season", 7, 0, 4, "heron")
    said = refusal("--data season")
    assert "season has 4 images of 1 class that the model does not know: heron (4)" in said
    assert "--ignore-unknown" in said
    found = figures("--data season --ignore-unknown")
    assert found["per_class"] == before["per_class"]
    assert "Left out: 4 images of 1 class that the model does not know" in notes(found)


def test_a_folder_without_any_known_class_is_refused(place):
    save_digits("birds", 7, 0, 4, "heron")
    said = refusal("--data birds --ignore-unknown")
    assert "birds has no class of the model: it has heron, and the model knows digit 0, digit 1" in said


def test_without_data_or_with_those_of_the_run_its_own_test_images_are_used(place):
    result = json.loads(Path("run/result.json").read_text())
    for words in ("", f"--data {place}/run/../photos"):
        found = figures(words)
        assert found["own_test_images"]
        assert found["images"] == result["dataset"]["images"]["test"]
        assert found["top1"] == pytest.approx(result["top1"]["last"])
    assert "photos is the data of the run: only the test images are used" in notes(found)
    assert f"run on its own {found['images']} test images of photos" in printed("evaluate run")


def test_data_of_the_run_that_were_moved_are_recognised(place):
    Path("photos").rename("elsewhere")
    result = json.loads(Path("run/result.json").read_text())
    assert figures("--data elsewhere")["images"] == result["dataset"]["images"]["test"]


def test_a_model_without_its_run_is_evaluated_on_other_data(place):
    before = figures("--data season")
    shutil.rmtree("photos")
    assert figures("--data season")["per_class"] == before["per_class"]
    for file in Path("run").iterdir():
        if not file.name.startswith("model."):
            shutil.rmtree(file) if file.is_dir() else file.unlink()
    assert figures("--data season")["per_class"] == before["per_class"]


@pytest.mark.parametrize("change", ["added", "replaced", "removed"])
def test_data_that_changed_since_training_are_refused(place, change):
    """Test images are drawn from the images that are there: with others, training images are among them."""
    if change in {"added", "replaced"}:
        save_digits("photos", 0, 60, 1)
    if change in {"removed", "replaced"}:
        min(Path("photos/digit 0").iterdir()).unlink()
    for words in ("", "--data photos"):
        said = refusal(words)
        assert "photos has changed since run was trained on it (fingerprint " in said
        assert "restore it, or pass other images with --data" in said


def test_files_of_data_that_have_changed_are_left_out_because_they_may_be_training_images(place):
    min(Path("photos/digit 0").iterdir()).unlink()
    save_digits("photos", 0, 60, 1)  # as many as before
    for digit in range(4):
        shutil.copytree(f"photos/digit {digit}", f"season/digit {digit}/copies")
    found = figures("--data season")
    assert found["test_counts"] == list(SEASON)
    assert "102 images that are also in photos, which has changed since the run was trained on it." in notes(found)
    assert "has changed since the run was trained, and has all 108 images of all" in refusal(
        f"--data {shutil.copytree('photos', 'all')}"
    )


def test_training_images_are_known_although_a_file_was_unreadable(home, place):
    Path("photos/digit 0/0.png").write_bytes(b"")
    printed("train own/ce --data photos --out again --set stage1.epochs=0 --set model.width=0.25 --set data.size=16")
    dataset = RunFolder(Path("again")).result().dataset
    shutil.copytree("photos", "copies")
    Path("copies/digit 0/0.png").unlink()
    save_digits("copies", 0, 60, 1)
    found = json.loads(printed("evaluate again --json --data copies"))
    assert found["images"] == dataset.images["test"] + 1


def test_a_run_whose_data_are_elsewhere_recognises_no_training_images_and_says_so(place):
    shutil.rmtree("photos")
    assert "photos, which the run was trained on, cannot be read: training images" in notes(figures("--data season"))


def test_training_images_among_others_are_left_out(place):
    own = figures("")
    Path("list.csv").write_text(
        "path,label\n" + "".join(f"{file},{file.parent.name}\n" for file in sorted(Path().glob("*/digit */*.png")))
    )
    found = figures("--data list.csv")
    assert found["images"] == own["images"] + 24
    assert f"Left out: {sum(TRAINED) - own['images']} images that the run was trained on" in notes(found)
    for digit in range(4):
        shutil.copytree(f"photos/digit {digit}", f"season/digit {digit}/copies")
    assert figures("--data season")["images"] == sum(SEASON) + sum(own["test_counts"][:4])


def test_a_folder_of_training_images_only_is_refused(place):
    run, photos = RunFolder(Path("run")), sorted(Path("photos").rglob("*.png"))
    trained, changed = trained_files(photos, run.recipe(), run.result())
    assert not changed
    files = [file for file, known in zip(photos, trained, strict=True) if known]
    assert len(files) == sum(run.result().dataset.images[split] for split in ("train", "val"))
    for file in files:
        target = Path("seen", file.parent.name, file.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    assert f"the run was trained on all {len(files)} images of seen; pass images that the run has not seen" in refusal(
        "--data seen"
    )


def test_lists_and_arrays(place):
    files = sorted(Path("season").glob("digit */*.png"))
    lines = [f"{file},{file.parent.name},test\n" for file in files]
    Path("list.csv").write_text("path,label,split\n" + "".join(lines))
    folder = figures("--data season")
    assert figures("--data list.csv")["per_class"] == folder["per_class"]
    images = np.stack([np.asarray(Image.open(file)) for file in files])
    labels = np.array([file.parent.name for file in files])
    for names in (("x", "y"), ("x_test", "y_test")):
        np.savez("season.npz", **dict(zip(names, (images, labels), strict=True)))
        found = figures("--data season.npz")
        assert found["images"] == 24
        assert found["per_class"] == folder["per_class"]


def test_images_are_read_with_the_channels_of_the_model(place):
    before = figures("--data season")
    for file in Path("season").rglob("*.png"):
        Image.open(file).convert("RGB").save(file)
    assert figures("--data season")["per_class"] == before["per_class"]


def test_files_that_cannot_be_read_are_left_out_and_named(place):
    save_digits("season", 0, 120, 20)
    Path("season/digit 0/broken.png").write_text("")
    found = figures("--data season")
    assert found["images"] == 44
    assert "1 of 45 images cannot be read and are left out: digit 0/broken.png" in notes(found)


def test_few_images_have_an_interval(place):
    found = figures("--data season")
    low, high = found["intervals"]["top1"]
    assert low < found["top1"] < high
    assert found["intervals"]["balanced_accuracy"][1] - found["intervals"]["balanced_accuracy"][0] > high - low
    said = printed("evaluate run --data season")
    assert f"95 % intervals: top1 {low:.1f}\u00a0–\u00a0{high:.1f}, balanced accuracy" in said
    assert "run on 24 labelled images of season" in said


def test_the_ece_that_is_printed_is_that_of_the_probabilities_that_predict_gives(place, home):
    result = json.loads(Path("run/result.json").read_text())["calibrated"]
    assert result["fitted_on"] == "val"
    used = result["weighted"] or result
    trained = (home / "said.txt").read_text()
    assert f"  ece {used['ece']:.1f} (calibrated" in trained
    assert trained.count("ece") == 1
    said = printed("evaluate run")
    assert f"ece {used['ece']:.1f} (calibrated" in said


def test_the_ece_at_a_prior_is_on_images_weighted_to_it_and_named_so(place):
    adjusted = figures("--data season --prior uniform")
    found = adjusted["calibrated"]
    assert found["weighted"]["prior"] == "uniform"
    assert found["ece"] == pytest.approx(adjusted["ece"])
    said = printed("evaluate run --data season --prior uniform")
    assert f"ece {found['weighted']['ece']:.1f} (calibrated; all classes equally often" in said
    assert f"), {found['ece']:.1f} on the images as they are" in said
    Path("p.csv").write_text("".join(f"digit {digit},{1 + digit}\n" for digit in range(5)))
    assert "(calibrated; classes as often as in p.csv" in printed("evaluate run --prior p.csv")


def test_weights_that_are_nan_are_an_error(place):
    weights = load_file("run/model.safetensors")
    save_file({name: value * float("nan") for name, value in weights.items()}, "run/model.safetensors", {"format": "1"})
    said = refusal("--data season")
    assert "the outputs of run are NaN or infinite for all 24 images" in said
    assert "0.0" not in said


def test_another_spelling_of_a_class_is_asked_about(place):
    Path("season/digit 0").rename("season/Digit_0")
    save_digits("season", 7, 0, 4, "heron")
    assert "the model does not know: Digit_0 (9; did you mean digit 0?), heron (4); rename them" in refusal(
        "--data season"
    )
    assert "Digit_0 (9; did you mean digit 0?)" in notes(figures("--data season --ignore-unknown"))


@pytest.mark.parametrize(("of_model", "of_folder"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_class_with_an_accent_is_known_in_both_of_its_forms(of_model, of_folder, place):
    """Folders from macOS have an accent and its letter apart; so had models that were trained on them."""
    rename_class(place / "run/model.json", unicodedata.normalize(of_model, "Käuze"))
    Path("season/digit 0").rename(place / "season" / unicodedata.normalize(of_folder, "Käuze"))
    assert figures("--data season")["images"] == sum(SEASON)


def test_a_run_with_accents_in_the_form_of_macos_is_evaluated_on_its_own_images(place):
    name = unicodedata.normalize("NFD", "Käuze")
    rename_class(place / "run/model.json", name)
    Path("photos/digit 0").rename(place / "photos" / name)
    assert figures("")["own_test_images"]


def test_images_that_moved_are_asked_for_and_found_again(place):
    Path("photos").rename("elsewhere")
    missing = f"photos, with the images of run, does not exist in {place}; "
    assert f"{missing}pass where it is now with --data" in refusal("")
    assert figures("--data elsewhere")["own_test_images"]
    for verb in ("rebalance run --with tau-norm", "train --resume --out run"):
        assert f"{missing}move it back, or run this command from the folder" in " ".join(command(verb)[1].split())


def rename_class(model_file, name):
    """Give the first class of a model another name."""
    content = json.loads(model_file.read_text("utf-8"))
    content["class_names"][0] = name
    model_file.write_text(json.dumps(content), "utf-8")
