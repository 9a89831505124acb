"""List files: CSV, TSV and lines of path and label; parts, groups, and every way to get them wrong."""

import logging
import os
import shutil
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.bad_inputs import command
from helpers.drawing import draw
from tailcloud.data import ReadOptions, open_dataset
from tailcloud.data.inspection.survey import survey
from tailcloud.data.inspection.verify import files_of
from tailcloud.data.readers.csv_list import _normalized, read_list
from tailcloud.data.readers.open_path import list_root, named_root
from tailcloud.errors import TailcloudError, UsageError


@pytest.fixture
def photos(tmp_path):
    """Twelve images a.png … in a folder, each with its own grey level."""
    for number in range(12):
        draw(tmp_path / "photos" / f"{number}.png", colour=number * 20)
    return tmp_path


def written(folder, text, name="list.csv", **options):
    (folder / name).write_text(text, **options)
    return folder / name


def opened(path, **options):
    return open_dataset(str(path), options=ReadOptions(**options))


def rows(numbers, tail):
    return "".join(f"photos/{number}.png{tail(number)}\n" for number in numbers)


def test_a_csv_with_a_split_keeps_it(photos):
    text = "label,path,split\n" + "".join(
        f"{'cat' if i % 2 else 'ox'},photos/{i}.png,{('train', 'val', 'test')[i // 4]}\n" for i in range(12)
    )
    data = opened(written(photos, text))
    assert data.class_names == ["cat", "ox"]
    for part, numbers in ((data.train, range(4)), (data.val, range(4, 8)), (data.test, range(8, 12))):
        assert sorted(part.names) == sorted(f"photos/{i}.png" for i in numbers)
        for name, label, image in zip(part.names, part.labels, part.images, strict=True):
            number = int(name.split("/")[1].split(".")[0])
            assert (data.class_names[label], image[0, 0, 0]) == (("ox", "cat")[number % 2], number * 20)


@pytest.mark.parametrize(
    ("name", "head", "between"),
    [
        ("a.csv", "File,Class\n", ","),
        ("a.csv", "\ufeffimage;category\n", ";"),
        ("a.tsv", "path\tlabel\n", "\t"),
        ("a.csv", "", ","),
        ("a.txt", "", " "),
        ("a.txt", "", "\t"),
        ("a.csv", "\npath,label\n\n", ","),
    ],
)
def test_every_dialect_says_the_same(photos, name, head, between):
    text = head + rows(range(12), lambda i: f"{between}{(3, 20, 100)[i % 3]}")
    data = opened(written(photos, text, name, encoding="utf-8"))
    assert data.class_names == ["3", "20", "100"]
    assert data.profile.counts.tolist() == [3, 3, 3]


def test_paths_may_have_spaces_and_be_absolute(photos, tmp_path):
    draw(photos / "my photos" / "a b.png")
    absolute = draw(tmp_path / "elsewhere" / "c.png")
    listing = read_list(written(photos, f"my photos/a b.png 0\n{absolute} 0\n", "l.txt"))
    assert {path.name for path in listing.paths} == {"a b.png", "c.png"}
    assert all(path.is_file() for path in listing.paths)


def test_published_lists_of_parts_are_read_together(photos):
    for part, numbers in (("train", range(6)), ("val", range(6, 9)), ("test", range(9, 12))):
        written(photos, rows(numbers, lambda i: f" {i % 3}"), f"ImageNet_LT_{part}.txt")
    data = opened(photos / "ImageNet_LT_train.txt")
    assert (len(data.train), len(data.val), len(data.test)) == (6, 3, 3)
    assert data.remarks[0].startswith("ImageNet_LT_train.txt, ImageNet_LT_val.txt, ImageNet_LT_test.txt are read")


def test_an_image_of_two_lists_is_refused_with_both_of_them(photos):
    written(photos, "photos/1.png 0\n", "birds_train.txt")
    written(photos, "photos/2.png 0\nphotos/1.png 1\n", "birds_val.txt")
    with pytest.raises(
        TailcloudError, match=r'"0" in line 1 of .*birds_train.txt and "1" in line 2 of .*birds_val.txt'
    ):
        opened(photos / "birds_train.txt")


def test_long_lists_are_told_while_they_are_read(photos, monkeypatch, caplog):
    monkeypatch.setattr("tailcloud.data.readers.csv_list.LINES_BETWEEN_CLOCKS", 2)
    monkeypatch.setattr("tailcloud.data.readers.csv_list.SECONDS_BETWEEN_NOTES", -1.0)
    with caplog.at_level(logging.INFO):
        read_list(written(photos, rows(range(3), lambda i: f" {i % 3}"), "list.txt"))
    assert [record.getMessage() for record in caplog.records] == [f"2 lines of {photos / 'list.txt'} read"]


def test_groups_by_a_column_stay_in_one_part(photos):
    text = "path,label,patient\n" + rows(range(12), lambda i: f",{i % 2},p{i // 3}")
    data = opened(written(photos, text), group="patient", test=0.25)
    patients = [{int(name.split("/")[1].split(".")[0]) // 3 for name in part.names} for part in (data.train, data.test)]
    assert not patients[0] & patients[1]
    assert len(set(data.train.groups)) == len(patients[0])


def test_images_without_a_group_stand_alone(photos):
    text = "path,label,patient\n" + rows(range(12), lambda i: f",{i % 2},{'p' if i < 4 else ''}")
    data = opened(written(photos, text), group="patient", test=0.25)
    assert "8 of 12 images have no group by data.group; each of them is a group of its own." in data.remarks
    assert len(set(data.train.groups.tolist()) | set(data.test.groups.tolist())) == 9


def test_groups_that_straddle_given_parts_are_told(photos):
    text = "path,label,split,patient\n" + rows(range(12), lambda i: f",0,{'test' if i > 7 else 'train'},p{i % 4}")
    data = opened(written(photos, text), group="patient")
    assert any(remark.startswith("4 groups have images in more than one split") for remark in data.remarks)


def test_a_line_given_twice_counts_once(photos):
    listing = read_list(written(photos, "path,label\nphotos/1.png,0\n./photos/1.png,0\nphotos/2.png,0\n"))
    assert len(listing) == 2
    assert listing.remarks == ("1\u00a0line left out, because an earlier line lists the same image.",)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", "path,label\n", "lists no images"),
        ("a.csv", "", "a.csv is empty; its first line"),
        ("a.tsv", " \n\n", "a.tsv is empty; its first line"),
        ("a.csv", "name,kind\na,b\n", "has the columns name, kind; it needs one named path"),
        ("a.csv", "path,label\na.png\n", "line 2 of .* has 1.column, and the first line has 2"),
        ("a.csv", "path,label\n\na.png,\n", "line 3 of .* has no label"),
        ("a.csv", "path,label\n,cat\n", "line 2 of .* has no path"),
        ("a.csv", "path,label,split\na.png,cat,holdout\n", 'has the split "holdout"; it should be train'),
        ("a.csv", "path,label,split\na.png,cat,\n", "line 2 of .* has no split"),
        ("a.csv", "path,label\na.png,cat\na.png,dog\n", 'label "cat" in line 2 of .*a.csv and "dog" in line 3 of'),
        (
            "a.csv",
            "path,label,split\na.png,c,train\na.png,c,test\n",
            'split "train" in line 2 of .* and "test" in line 3 of',
        ),
        ("a.csv", "path,label,split\na.png,c,test\n", "cannot be read"),
        ("a.txt", "a.png 0\nb.png\n", 'line 2 of .* is "b.png"; it should be a path, a space and a label'),
        ("a.csv", 'path,label\n"' + "x" * 200_000 + '",1\n', "line 2 of .* is not valid CSV"),
    ],
)
def test_lists_that_cannot_work_are_refused(name, content, sentence, tmp_path):
    with pytest.raises(TailcloudError, match=sentence):
        opened(written(tmp_path, content, name))


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"path,label\n\xff\xfe,1\n")
    with pytest.raises(UsageError, match="not UTF-8 text"):
        read_list(tmp_path / "a.csv")


def test_lists_beyond_all_bounds_are_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr("tailcloud.data.readers.csv_list.MAX_BYTES", 10)
    with pytest.raises(UsageError, match="has 22 bytes; a list of images may have 10"):
        read_list(written(tmp_path, "path,label\nphotos/1,0\n"))


def test_a_list_of_a_stranger_reads_no_devices_and_shows_no_contents(photos):
    secret = written(photos, "root:secret-of-mine:0", "passwd")
    names = ["/dev/zero", "/dev/stdin", str(secret), "x" * 5000, "nul\0byte"]
    text = "path,label\n" + "".join(f"{name},1\n" for name in names)
    with pytest.raises(TailcloudError, match="5 of 5 images") as caught:
        opened(written(photos, text))
    assert "secret-of-mine" not in str(caught.value)


def test_missing_files_are_named(photos):
    with pytest.raises(
        TailcloudError, match=r"99.png \(it does not exist\); the first was expected at /.*photos/99.png"
    ):
        opened(written(photos, "path,label\n" + rows([1, 2, 99], lambda i: ",1")))


def test_labels_need_not_be_contiguous(photos):
    data = opened(written(photos, rows(range(12), lambda i: f" {(7, 1000)[i % 2]}"), "a.txt"))
    assert data.class_names == ["7", "1000"]
    assert set(np.unique(data.train.labels)) == {0, 1}


@given(st.lists(st.sampled_from(["/", ".", "..", "a", "b.png", " "]), min_size=1).map("".join))
def test_paths_are_written_as_pathlib_does(path):
    assert _normalized(path) == Path(path).as_posix()


@pytest.mark.parametrize("loader", ["resident", "stream"])
@pytest.mark.parametrize("name", ["list.csv", "list.txt"])
def test_the_images_of_a_list_may_be_below_another_root(photos, loader, name):
    lines = [f"photos/{number}.png {number % 2}" for number in range(12)]
    text = "\n".join(["path,label", *(line.replace(" ", ",") for line in lines)] if name == "list.csv" else lines)
    place = photos / "elsewhere" / name
    place.parent.mkdir()
    place.write_text(text + "\n")
    options = ReadOptions(loader=loader, size=8)
    with pytest.raises(TailcloudError, match="--root sets the folder that paths of a list start from"):
        open_dataset(str(place), options=options)
    assert len(open_dataset(str(place), photos, options).train) == 10
    assert not survey(str(place), photos, options).broken
    (files,) = files_of(str(place), photos)
    assert all(files.path(row).is_file() for row in range(12))


def test_the_usual_root_is_meant_only_for_images_that_are_in_it(photos, monkeypatch):
    place = written(photos, "photos/0.png 0\nphotos/1.png 1\n", "l.txt")
    monkeypatch.chdir(photos)
    beside = list_root(place, Path("data"), "photos/0.png")
    (photos / "photos").rename(photos / "moved")
    nowhere = list_root(place, Path("data"), "photos/0.png")
    (photos / "data").mkdir()
    (photos / "moved").rename(photos / "data" / "photos")
    assert (beside, nowhere) == (photos, photos)
    assert list_root(place, Path("data"), "photos/0.png") == Path("data")


def test_a_root_that_is_named_is_meant_though_the_list_has_such_files_beside_it(photos):
    place = written(photos, "photos/0.png 0\nphotos/1.png 1\n", "l.txt")
    assert list_root(place, photos / "elsewhere", "photos/0.png") == photos / "elsewhere"
    assert list_root(place, named_root("data"), "photos/0.png") == Path("data")
    assert list_root(place, named_root(None), "photos/0.png") == photos


@pytest.mark.parametrize("verb", ["inspect l.csv --no-plan", "data verify l.csv"])
def test_a_root_that_is_named_as_the_default_is_meant_too(photos, monkeypatch, verb):
    monkeypatch.chdir(photos)
    written(photos, "path,label\n" + "".join(f"photos/{number}.png,{number % 2}\n" for number in range(12)), "l.csv")
    shutil.copytree(photos / "photos", photos / "data" / "photos")
    for file in (photos / "data" / "photos").iterdir():
        file.write_bytes(b"")
    assert command(verb)[0] == 0
    code, said = command(f"{verb} --root data")
    assert (code, "is empty (0 bytes)" in said) == (1, True), said


def test_a_line_that_comes_twice_is_one_whatever_the_form_of_its_accents(tmp_path):
    lines = [f"1.jpg,{unicodedata.normalize(form, 'Käuze')}\n" for form in ("NFC", "NFD")]
    (tmp_path / "list.csv").write_text("path,label\n" + "".join(lines), "utf-8")
    assert read_list(tmp_path / "list.csv").labels == ["Käuze"]


def test_labels_that_look_alike_are_not_one_class(photos):
    place = written(photos, "path,label\nphotos/0.png,a\x01\nphotos/1.png,a\x02\n")
    with pytest.raises(UsageError, match=r"has the classes 'a.x01' and 'a.x02', whose names differ only in characters"):
        opened(place)


@pytest.mark.parametrize(
    ("lines", "advice"),
    [
        ("path,species\n1.jpg,lynx\n", ': rename "species" to label'),
        ("file,site,what\n1.jpg,3,a\n2.jpg,3,b\n3.jpg,4,b\n4.jpg,4,a\n", ': rename "what" to label'),
        ("photo,what,label\n1.jpg,x,a\n2.jpg,x,b\n", ': rename "photo" to path'),
        ("path,a\n1.jpg,x\n2.jpg,y\n", " (or class)"),
        ("path,a;label\n1.jpg,x;y\n", " (or class)"),
        ("path,size,kind_of_crop\n1.jpg,1,3\n2.jpg,2,3\n3.jpg,3,4\n4.jpg,4,4\n", ': rename "kind_of_crop" to label'),
        ("path,grade\n1.jpg,3\n2.jpg,3\n3.jpg,4\n4.jpg,4\n", ': rename "grade" to label'),
        ("image,cat,dog\n1.jpg,1,0\n2.jpg,1,0\n3.jpg,0,1\n4.jpg,0,1\n", " (or class)"),  # a column for each class
        ("image,class_cat,class_dog\n1.jpg,1,0\n2.jpg,1,0\n3.jpg,0,1\n4.jpg,0,1\n", " (or class)"),
        ("path,class_id,class_name\n1.jpg,0,cat\n2.jpg,1,dog\n", ': rename "class_id" to label'),
        ("path,stage,what\n1.jpg,3,a\n2.jpg,4,a\n3.jpg,5,b\n4.jpg,6,b\n", ': rename "what" to label'),
    ],
)
def test_a_list_of_other_columns_is_told_which_look_right(tmp_path, lines, advice):
    (tmp_path / "list.csv").write_text(lines)
    with pytest.raises(UsageError) as error:
        read_list(tmp_path / "list.csv")
    assert str(error.value).endswith(advice)


def test_a_list_with_two_columns_for_the_same_says_which_is_read(photos):
    lines = "filename,Class,path,label\n" + "".join(f"{i}.jpg,bird,photos/{i}.png,{i % 2}\n" for i in range(12))
    assert read_list(written(photos, lines)).remarks == (
        'Paths are those of the column "path", not of filename.',
        'Classes are those of the column "label", not of Class.',
    )


@pytest.mark.parametrize(
    ("path", "way_out"),
    [
        ("photos\\7.png", "write paths as this system does, with / between folders"),
        ("photos/7", "paths of a list have the suffix of the file, such as .jpg"),
        ("foto/7.png", "--root sets the folder that paths of a list start from"),
    ],
)
@pytest.mark.skipif(os.sep == "\\", reason="Windows has such paths")
def test_paths_that_lead_nowhere_are_told_why(photos, path, way_out):
    lines = "path,label\n" + "".join(f"{path.replace('7', str(i))},{'ox' if i % 2 else 'cat'}\n" for i in range(9))
    with pytest.raises(TailcloudError) as error:
        opened(written(photos, lines))
    assert str(error.value).endswith(f"; {way_out}")
