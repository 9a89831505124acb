"""Images sorted into folders: every image once, whole, under a name of its own; sources stay as they were."""

import csv
import errno
import os
import shutil
from pathlib import Path

import pytest

from tailcloud.errors import TailcloudError, UsageError
from tailcloud.serving.image_paths import find_images
from tailcloud.serving.predict import FilePrediction
from tailcloud.serving.sort_into import SortedFolder, folder_names, unique_names


def sort(out, predictions, classes=("cat", "dog"), **options):
    with SortedFolder(out, classes, **options) as folder:
        return list(folder.sort(predictions))


def predicted(path, name="cat", probability=0.9):
    return FilePrediction(path, ((name, probability),))


def rows(out):
    with (out / "predictions.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def files(out):
    return sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir())


@pytest.fixture
def photo(tmp_path):
    def photo(name, content=None):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content or os.fsencode(name))
        return path

    return photo


def test_copies_by_class_unsure_apart_and_a_list_of_all(tmp_path, photo):
    sources = [photo("in/a.jpg"), photo("in/b.jpg"), photo("in/c.jpg"), photo("in/d.jpg", b"broken")]
    os.utime(sources[0], (1_000_000_000, 1_000_000_000))
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in sources}
    predictions = [predicted(sources[0]), predicted(sources[1], "dog", 0.8), predicted(sources[2], "dog", 0.5)]
    sort(tmp_path / "out", [*predictions, FilePrediction(sources[3], error="it is damaged")], threshold=0.8)
    assert files(tmp_path / "out") == ["cat/a.jpg", "dog/b.jpg", "predictions.csv", "unsure/c.jpg"]
    assert (tmp_path / "out/cat/a.jpg").stat().st_mtime == 1_000_000_000
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in sources} == before
    assert [list(row.values()) for row in rows(tmp_path / "out")] == [
        [str(sources[0]), "cat/a.jpg", "cat", "0.900000", ""],
        [str(sources[1]), "dog/b.jpg", "dog", "0.800000", ""],
        [str(sources[2]), "unsure/c.jpg", "dog", "0.500000", ""],
        [str(sources[3]), "", "", "", "it is damaged"],
    ]


def test_links_work_from_anywhere_and_leave_the_source(tmp_path, photo, monkeypatch):
    source = photo("in/a.jpg")
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "shortcut").symlink_to(tmp_path / "elsewhere" / "deep", target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    sort(Path("out"), [predicted(Path("in/a.jpg")), predicted(Path("shortcut/../../in/a.jpg"), "dog")], link=True)
    (tmp_path / "out").rename(tmp_path / "elsewhere" / "out")
    monkeypatch.chdir("/")
    for place in ("cat", "dog"):
        link = tmp_path / "elsewhere" / "out" / place / "a.jpg"
        assert link.is_symlink()
        assert link.read_bytes() == source.read_bytes()


def test_files_of_one_name_are_all_kept_and_show_where_they_are_from(tmp_path, photo):
    names = ["one/1/IMG.jpg", "two/1/IMG.jpg", "two/2/IMG.jpg", "IMG.jpg"]
    sources = [photo(f"in/{name}") for name in names]
    out = tmp_path / "out"
    sort(out, map(predicted, [*sources, sources[0]]))
    destinations = [row["destination"] for row in rows(out)]
    assert destinations[:4] == ["cat/IMG.jpg", "cat/1__IMG.jpg", "cat/2__IMG.jpg", "cat/in__IMG.jpg"]
    assert len(set(destinations)) == 5
    for name, destination in zip([*names, names[0]], destinations, strict=True):
        assert (out / destination).read_bytes() == f"in/{name}".encode()


def test_names_grow_by_folders_then_by_a_number_and_never_too_long():
    names = unique_names(Path("/a/b/x.jpg"))
    assert [next(names) for _ in range(5)] == ["x.jpg", "b__x.jpg", "a__b__x.jpg", "x_2.jpg", "x_3.jpg"]
    long = unique_names(Path("/a" * 40) / ("ü" * 120 + ".jpg"))
    assert all(len(os.fsencode(next(long))) <= 255 for _ in range(100))


def test_folders_of_odd_classes_are_inside_apart_and_readable(tmp_path):
    odd = ["unsure", "..", ".", "...", "", " ", "a/b", "a_b", "/etc/passwd", "cat", "Cat", "cat ", "cat.", ".hidden"]
    odd += ["c:d", "con", "nul.txt", "x" * 300, "x" * 299, "ü" * 200, "new\nline", "b\udcff", "predictions.csv", "\\"]
    odd += ["É", "E\u0301"]
    folders = folder_names(odd)
    assert len({name.casefold() for name in folders.values()}) == len(set(odd))
    for name in folders.values():
        assert "/" not in name
        assert name not in {"", ".", "..", "unsure", "predictions.csv"}
        assert name == name.strip().rstrip(".")
        assert not name.startswith(".")
        (tmp_path / name).mkdir()
    assert folders["a_b"] == "a_b"
    assert folders["cat"] == "cat"
    assert folders["a/b"] == "a_b_2"


def test_a_class_named_unsure_is_not_mixed_with_unsure_images(tmp_path, photo):
    out = tmp_path / "out"
    sort(
        out,
        [predicted(photo("a.jpg"), "unsure"), predicted(photo("b.jpg"), "cat", 0.1)],
        ("unsure", "cat"),
        threshold=0.5,
    )
    assert files(out) == ["predictions.csv", "unsure/b.jpg", "unsure_2/a.jpg"]


def test_a_file_that_is_not_utf8_keeps_its_name(tmp_path, photo):
    source = photo("in/b\udcff.jpg")
    sort(tmp_path / "out", [predicted(source)])
    assert (tmp_path / "out" / "cat" / "b\udcff.jpg").read_bytes() == source.read_bytes()
    assert rows(tmp_path / "out")[0]["destination"] == "cat/b\ufffd.jpg"


def test_no_cell_of_the_list_is_a_formula(tmp_path, photo):
    sort(tmp_path / "out", [predicted(photo("a.jpg"), "=1+1")], ("=1+1",))
    assert list(rows(tmp_path / "out")[0].values())[1:3] == ["./=1+1/a.jpg", "'=1+1"]


@pytest.mark.parametrize("name", ["note.txt", ".hidden", "predictions.csv"])
def test_a_folder_with_files_is_refused(tmp_path, photo, name):
    photo(f"out/{name}", b"mine")
    with pytest.raises(UsageError, match="is not empty; name a new folder"):
        SortedFolder(tmp_path / "out", ["cat"])
    assert files(tmp_path / "out") == [name]


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path, photo):
    with pytest.raises(UsageError, match="is a file, not a folder"):
        SortedFolder(photo("out"), ["cat"])


def test_on_a_full_disk_whole_copies_stay_and_no_half_one(tmp_path, photo, monkeypatch):
    sources, whole = [photo(f"in/{number}.jpg") for number in range(3)], shutil.copy2

    def copy(source, target):
        if Path(source).name == "2.jpg":
            Path(target).write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device", source, None, target)
        return whole(source, target)

    monkeypatch.setattr(shutil, "copy2", copy)
    with pytest.raises(TailcloudError, match=r"full disk; it holds 2 whole images.* --link"):
        sort(tmp_path / "out", map(predicted, sources))
    assert files(tmp_path / "out") == ["cat/0.jpg", "cat/1.jpg", "predictions.csv"]
    assert len(rows(tmp_path / "out")) == 2
    assert all(path.exists() for path in sources)


def test_where_links_are_not_possible_copies_are_named(tmp_path, photo, monkeypatch):
    def refuse(link, target):
        raise OSError(errno.EPERM, "Operation not permitted", str(target), None, str(link))

    monkeypatch.setattr(Path, "symlink_to", refuse)
    with pytest.raises(TailcloudError, match=r"Operation not permitted.*use --copy"):
        sort(tmp_path / "out", [predicted(photo("a.jpg"))], link=True)


def test_an_image_that_went_away_meanwhile_is_listed_with_the_reason(tmp_path, photo):
    gone, there = sort(tmp_path / "out", [predicted(tmp_path / "gone.jpg"), predicted(photo("a.jpg"))])
    assert (gone.top, gone.error) == ((), "No such file or directory")
    assert there.error is None
    assert [row["error"] for row in rows(tmp_path / "out")] == ["No such file or directory", ""]
    assert files(tmp_path / "out") == ["cat/a.jpg", "predictions.csv"]


@pytest.mark.parametrize("argument", ["{}", "{}/**/*.jpg", "-"])
def test_copies_are_not_read_again(tmp_path, photo, argument):
    """The folder is below the one that is read, and is filled while that is listed."""
    sources = [photo(f"in/{name}.jpg") for name in ("a", "z/b")]
    out = tmp_path / "in" / "m"
    with (tmp_path / "list").open("w+") as listed, SortedFolder(out, ["cat"]) as folder:
        found = find_images([str(sources[0]), argument.format(tmp_path / "in")], listed, outside=out)
        folder.add(predicted(next(found)))
        listed.write("\n".join(map(str, [*sources, out / "cat" / "a.jpg"])))
        listed.seek(0)
        assert [folder.add(predicted(path)).path for path in found] == sources


def test_memory_does_not_grow_with_the_images(tmp_path, photo):
    source = photo("a.jpg")
    many = (predicted(source, ("cat", "dog")[number % 2]) for number in range(3))
    with SortedFolder(tmp_path / "out", ("cat", "dog")) as folder:
        sorted_ones = folder.sort(many)
        next(sorted_ones)
        assert next(many).top[0][0] == "dog"  # one prediction at a time was taken
