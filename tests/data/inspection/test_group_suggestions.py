"""What inspect suggests for data.group: only where training and test would share bursts or groups of a column."""

from datetime import datetime, timedelta

import pytest

from helpers.drawing import draw_classes, photograph
from tailcloud.data import ReadOptions
from tailcloud.data.inspection import survey
from tailcloud.data.inspection.duplicates import find_duplicates
from tailcloud.data.inspection.findings import duplicate_sentences
from tailcloud.data.inspection.group_suggestions import group_suggestions

NOON = datetime(2024, 5, 17, 12)


def suggested(place, **options):
    """The sentences, with plain spaces."""
    seen = survey(str(place), options=ReadOptions(size=8, **options))
    return [sentence.replace("\u00a0", " ") for sentence in group_suggestions(seen)]


def photographs(root, per_burst, bursts=20):
    for number in range(bursts * per_burst):
        taken = NOON + timedelta(hours=number // per_burst, seconds=10 * (number % per_burst))
        photograph(root / "fox" / f"{number}.jpg", taken, seed=number)
    return root


def test_bursts_across_the_split_are_counted_with_the_setting_to_type(tmp_path):
    [sentence] = suggested(photographs(tmp_path, 4))
    assert sentence == (
        "80 of 80 images are in bursts (same camera, at most 30 s apart), and 16 of 16 test images (100.0 %) have "
        "another image of their burst in training: the accuracy will look better than it is. "
        "Keep each burst in one split: --set data.group=exif."
    )
    assert suggested(tmp_path, group="exif") == []


def test_without_bursts_nothing_is_suggested(tmp_path):
    assert suggested(photographs(tmp_path / "alone", 1)) == []
    assert suggested(draw_classes(tmp_path / "drawn", {"cat": 20})) == []


def test_one_burst_is_too_few_to_matter(tmp_path):
    photographs(tmp_path, 1)
    photograph(tmp_path / "fox" / "again.jpg", NOON, seed=99)
    assert suggested(tmp_path) == []


def test_given_splits_get_no_setting_that_would_not_help(tmp_path):
    photographs(tmp_path / "train", 2, bursts=8)
    for number in range(8):
        photograph(tmp_path / "test" / "fox" / f"{number}.jpg", NOON + timedelta(hours=number, seconds=25), seed=50)
    [sentence] = suggested(tmp_path)
    assert sentence.endswith("the accuracy will look better than it is. Move each burst into one split.")
    assert "8 of 8 test images" in sentence


@pytest.mark.parametrize(
    ("column", "setting"),
    [
        ("patient", "--set data.group=patient"),
        ("Patient ID", "--set 'data.group=Patient ID'"),
        ("weight", None),
        ("treeless", None),
    ],
)
def test_a_column_about_groups_is_suggested(tmp_path, column, setting):
    draw_classes(tmp_path, {"cat": 40})
    lines = [f"cat/{number}.png,cat,p{number // 4}" for number in range(40)]
    (tmp_path / "list.csv").write_text("\n".join([f"path,label,{column}", *lines]))
    sentences = suggested(tmp_path / "list.csv")
    assert len(sentences) == (setting is not None)
    if setting:
        assert sentences[0].startswith(f'The column "{column}" has 10 groups of images, and 8 of 8 test images')
        assert sentences[0].endswith(f"Keep each group in one split: {setting}.")


def test_copies_across_the_split_come_with_the_setting(tmp_path):
    for number in range(30):
        for copy in "ab":
            photograph(tmp_path / "fox" / f"{number}{copy}.jpg", seed=number)
    seen = survey(str(tmp_path), options=ReadOptions(size=8))
    sentences = list(duplicate_sentences(seen, find_duplicates(seen.images)))
    assert sentences[0].endswith(
        "Remove the copies, or keep each set of them in one split: --set data.group=duplicates."
    )
    grouped = survey(str(tmp_path), options=ReadOptions(size=8, group="duplicates"))
    assert not any("in training too" in s for s in duplicate_sentences(grouped, find_duplicates(grouped.images)))
