"""The reader of long lists against the one that reads line by line, and what it refuses with which line."""

import lzma
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailcloud.data.packed_names import Names
from tailcloud.data.readers import large_list
from tailcloud.data.readers.csv_list import read_list
from tailcloud.data.readers.large_list import UnexpectedLine, find_repeats, hash_names, parse_list, read_large_list
from tailcloud.errors import UsageError

PATHS = st.text("ab. /-\u00e9\u4e2d0", min_size=1, max_size=20).map(lambda text: f"x{text}y")
LABELS = st.one_of(st.integers(-20, 2000), st.integers(-(10**17), 10**17))
LINES = st.lists(st.tuples(PATHS, LABELS, st.sampled_from([" ", "\t", "  \t "])), min_size=1, max_size=30)


@given(LINES, st.sampled_from(["\n", "\r\n", "  \n", "\n\n \n"]), st.booleans(), st.sampled_from([1 << 20, 64]))
@settings(max_examples=150, deadline=None)
def test_it_reads_what_the_other_reader_reads(tmp_path_factory, lines, newline, bom, block):
    folder = tmp_path_factory.mktemp("lists")
    unique = {path: (label, between) for path, label, between in lines}
    text = newline.join(f"{path}{between}{label}" for path, (label, between) in unique.items())
    (folder / "a.txt").write_bytes(text.encode("utf-8-sig" if bom else "utf-8"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_list, "BLOCK", block)
        found = parse_list(folder / "a.txt")
    assert dict(zip(found.names, found.labels.tolist(), strict=True)) == {p: label for p, (label, _) in unique.items()}
    slow = read_list(folder / "a.txt")
    named = {path.relative_to(folder): int(label) for path, label in zip(slow.paths, slow.labels, strict=True)}
    assert {str(path).replace("//", "/") for path in named} == {
        str(folder.joinpath(n).relative_to(folder)) for n in unique
    }


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a.jpg 0\nb.jpg\n", 2),
        ("a.jpg 0\n\n\nb.jpg cat\n", 4),
        ("a.jpg 0\nb.jpg 1.5\n", 2),
        ("a.jpg 0\nb.jpg 007\n", 2),
        ("a.jpg 0\nb.jpg -\n", 2),
        ("a.jpg 0\n7\n", 2),
        ("a.jpg 0\nb.jpg 99999999999999999999\n", 2),
        ("a.jpg 0\nb\x01.jpg 1\n", 2),
        ("a.jpg 0\rb.jpg 1\n", 1),
        ("a.jpg 0\nb.jpg\u00a01\n", 2),
    ],
)
@pytest.mark.parametrize("block", [1 << 20, 32])
def test_lines_that_are_something_else_are_named(text, line, block, tmp_path, monkeypatch):
    monkeypatch.setattr(large_list, "BLOCK", block)
    (tmp_path / "a.txt").write_text(text, newline="")
    with pytest.raises(UnexpectedLine, match=rf"line {line} of .*a.txt is not a path, a space and a whole number"):
        parse_list(tmp_path / "a.txt")


def test_a_row_knows_its_line_among_blank_ones(tmp_path):
    (tmp_path / "a.txt").write_text("\n\na 0\nb 1\n \n\nc 2\n\nd 3")
    found = parse_list(tmp_path / "a.txt")
    assert [found.line(row) for row in range(4)] == [3, 4, 7, 9]


def test_packed_lists_are_read_and_dots_taken_off(tmp_path):
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(b"./a/b.jpg 3\n../c.jpg 4\n./ 5\n"))
    found = parse_list(tmp_path / "a.txt.xz")
    assert list(found.names) == ["a/b.jpg", "../c.jpg", "./"]
    (tmp_path / "b.txt.xz").write_bytes(lzma.compress(b"a 1\n" * 1000)[:-20])
    with pytest.raises(UsageError, match=r"b.txt.xz is damaged and cannot be decompressed"):
        parse_list(tmp_path / "b.txt.xz")


def test_what_is_no_list_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(large_list, "MAX_BYTES", 100)
    (tmp_path / "a.txt").write_text("a 1\n" * 30)
    with pytest.raises(UsageError, match="more than 100 bytes"):
        parse_list(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_bytes(b"caf\xe9.jpg 1\n")
    with pytest.raises(UsageError, match="not UTF-8 text"):
        parse_list(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_text(" \n\n")
    with pytest.raises(UsageError, match="lists no images"):
        parse_list(tmp_path / "a.txt")
    monkeypatch.setattr(large_list, "BLOCK", 16)
    (tmp_path / "a.txt").write_text("a" * 60)
    with pytest.raises(UsageError, match="a line of more than 16 bytes"):
        parse_list(tmp_path / "a.txt")


def test_an_image_that_is_listed_twice_counts_once(tmp_path):
    (tmp_path / "a.txt").write_text("a.jpg 3\nb.jpg 4\n\na.jpg 3\n./b.jpg 4\nc.jpg 3\n")
    found = read_large_list(tmp_path / "a.txt")
    assert list(found.names) == ["a.jpg", "b.jpg", "c.jpg"]
    assert found.labels.tolist() == [3, 4, 3]
    assert found.remarks == ("2\u00a0lines left out, because an earlier line lists the same image.",)
    (tmp_path / "a.txt").write_text("a.jpg 3\nb.jpg 4\n\na.jpg 5\n")
    with pytest.raises(UsageError, match=r"a.jpg has the label 3 in line 1 of .* and the label 5 in line 4 of .*a.txt"):
        read_large_list(tmp_path / "a.txt")


def test_an_image_in_two_parts_is_refused(tmp_path):
    (tmp_path / "train.txt").write_text("a.jpg 3\nb.jpg 4\n")
    (tmp_path / "test.txt").write_text("c.jpg 3\nb.jpg 4\n")
    with pytest.raises(
        UsageError, match=r"b.jpg has the label 4 in line 2 of .*train.txt and the label 4 in line 2 of"
    ):
        read_large_list(tmp_path / "train.txt")


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=40))
def test_the_same_bytes_have_the_same_key_wherever_they_stand(texts):
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    block = np.frombuffer(b"".join(texts), np.uint8)
    keys = hash_names(block, ends - [len(text) for text in texts], ends)
    first = {text: texts.index(text) for text in texts}
    assert all((keys[a] == keys[b]) == (texts[a] == texts[b]) for a in range(len(texts)) for b in range(a))
    again, before = find_repeats(Names(b"".join(texts), ends), keys)
    expected = [(row, first[text]) for row, text in enumerate(texts) if first[text] != row]
    assert list(zip(again.tolist(), before.tolist(), strict=True)) == expected


def test_names_that_only_share_a_key_are_told_apart():
    names = Names.of(["a", "b", "a"])
    assert [found.tolist() for found in find_repeats(names, np.zeros(3, np.uint64))] == [[2], [0]]


def test_memory_is_a_few_times_the_list(tmp_path):
    lines = "".join(f"train/{number % 97:02d}/{number:08d}.jpg {number % 97}\n" for number in range(100_000))
    (tmp_path / "a.txt").write_text(lines)
    tracemalloc.start()
    found = read_large_list(tmp_path / "a.txt")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found.names) == 100_000
    assert peak < 6 * len(lines) + 30 * 2**20
