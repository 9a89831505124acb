"""The class prior that a user asks for, from a word or a file."""

import json
import unicodedata

import pytest

import tailcloud
from tailcloud.calibration import prior_file
from tailcloud.calibration.prior_file import read_prior
from tailcloud.errors import TailcloudError, UsageError

SHARES = [2.0, 1, 1, 1, 1, 1, 1, 1, 1, 0]


@pytest.fixture(scope="module")
def model(finished_run):
    return tailcloud.load(finished_run)


def prior_of(text, model):
    return read_prior(text, model.class_names, model.counts)


def lines(separator, head=""):
    return head + "".join(f"{digit}{separator}{share}\n" for digit, share in enumerate(SHARES))


def test_words(model):
    assert prior_of(None, model) is None
    assert prior_of("uniform", model).tolist() == pytest.approx([0.1] * 10)
    assert prior_of("train", model).tolist() == pytest.approx([n / sum(model.counts) for n in model.counts])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", lines(",", "class,share\n")),
        ("a.csv", lines(",")),
        ("a.csv", "\ufeff" + lines(",")),
        ("a.csv", "\ufeff" + lines(";", "Klasse;Anteil\n")),
        ("a.tsv", lines("\t")),
        ("a.json", json.dumps({str(digit): share for digit, share in enumerate(SHARES)})),
        ("A.JSON", json.dumps({str(digit): share for digit, share in enumerate(SHARES)})),
    ],
)
def test_files(model, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    assert prior_of(str(tmp_path / name), model).tolist() == pytest.approx([share / 10 for share in SHARES])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", None, "neither uniform nor train nor a file"),
        ("a.csv", "", "is not a prior"),
        ("a.csv", "1,2,3\n", "is not a prior"),
        ("a.json", "[" * 100_000, "is not a prior"),
        ("a.json", "[1, 2]", "is not a prior"),
        ("a.csv", lines(",") + "10,1\n", 'has the class "10", which the model does not have; did you mean'),
        ("a.csv", lines(",") + "9,1\n", 'has the class "9" twice'),
        ("a.json", '{"0": 1, "0": 5}', 'has the class "0" twice'),
        ("a.csv", "0,1\n1,1\n", r"has no share for 8 of 10 classes \(2, 3, 4, 5, 6, …\)"),
        ("a.csv", "".join(f"{digit},1\n" for digit in range(5)), r"for 5 of 10 classes \(5, 6, 7, 8, 9\)"),
        ("a.csv", lines(",").replace("0,2.0", "0,-1"), "must be a number of at least 0"),
        ("a.csv", lines(",").replace("1,1", "1,much"), "must be a number of at least 0"),
        ("a.csv", lines(",").replace("1,1", "1,inf"), "must be a number of at least 0"),
        ("a.json", json.dumps({str(digit): True for digit in range(10)}), "must be a number"),
        ("a.json", '{"0": NaN}', "must be a number"),
        ("a.csv", "".join(f"{digit},0\n" for digit in range(10)), "not all of them 0"),
    ],
)
def test_what_is_not_a_prior_is_refused_with_a_sentence(model, tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match=said):
        prior_of(str(tmp_path / name), model)


def test_a_file_of_another_kind_is_not_read(model, tmp_path, monkeypatch):
    monkeypatch.setattr(prior_file, "LARGEST_FILE", 10)
    (tmp_path / "a.csv").write_text(lines(","))
    with pytest.raises(UsageError, match=r"a.csv has 42 bytes, more than a share per class needs; it is not read"):
        prior_of(str(tmp_path / "a.csv"), model)


def test_a_prior_of_another_length_and_a_model_that_does_not_say_what_it_assumes(finished_run):
    model = tailcloud.load(finished_run)
    with pytest.raises(UsageError, match="has 3 shares, and the model has 10 classes"):
        model.shift([1, 1, 1])
    model.prior = None
    with pytest.raises(TailcloudError, match="older tailcloud"):
        model.shift([1] * 10)


@pytest.mark.parametrize(("of_model", "of_file"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_an_accent_is_the_same_in_both_of_its_forms(of_model, of_file, tmp_path):
    names = [unicodedata.normalize(of_model, name) for name in ("Käuze", "lynx")]
    (tmp_path / "prior.csv").write_text(unicodedata.normalize(of_file, "class,share\nKäuze,3\nlynx,1\n"), "utf-8")
    assert read_prior(str(tmp_path / "prior.csv"), names, [1, 1]).tolist() == pytest.approx([0.75, 0.25])
