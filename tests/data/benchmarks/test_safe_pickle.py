"""Pickles from strangers: plain data comes through, nothing else does, and nothing is ever run."""

import os
import pickle
import subprocess
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailcloud.data.benchmarks import safe_pickle
from tailcloud.data.benchmarks.safe_pickle import load_pickle
from tailcloud.errors import TailcloudError

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


@pytest.fixture
def write(tmp_path):
    def write_bytes(content: bytes) -> Path:
        path = tmp_path / "batch"
        path.write_bytes(content)
        return path

    return write_bytes


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_data_of_every_protocol(write, protocol):
    content = {
        "data": np.arange(12, dtype=np.uint8).reshape(3, 4),
        "wide": np.arange(6, dtype=">i4").reshape(2, 3),
        "turned": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "empty": b"",
        "bytes": b"\x00\xff",
        "labels": [1, 2, 300, -(2**40)],
        "names": ["apple", "größe"],
    }
    loaded = load_pickle(write(pickle.dumps(content, protocol)))
    assert list(loaded) == list(content)
    for key, value in content.items():
        if isinstance(value, np.ndarray):
            assert loaded[key].dtype == value.dtype
            assert np.array_equal(loaded[key], value)
        else:
            assert loaded[key] == value


def test_a_pickle_of_python_2_and_numpy_1(write):
    """What the official files look like: old strings, and arrays by the old name of NumPy's module."""
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR(K\x01K\x01K\x02\x86"
        b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x02\x07\x08tb"
    )
    loaded = load_pickle(write(b"\x80\x02}(U\x04data" + array + b"U\x05names]U\x03catau."))
    assert loaded["data"].tolist() == [[7, 8]]
    assert loaded["names"] == [b"cat"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_code_is_refused_and_does_not_run(write, tmp_path, protocol):
    trace = tmp_path / "was-here"
    path = write(pickle.dumps({"data": Evil(os.system, f"touch {trace}")}, protocol))
    with pytest.raises(TailcloudError, match=r"batch refers to (posix|nt)\.system, .* was not run"):
        load_pickle(path)
    assert not trace.exists()


@pytest.mark.parametrize(
    "evil",
    [
        Evil(eval, "1"),
        Evil(getattr, "", "join"),
        Evil(subprocess.run, ["true"]),
        Evil(__import__, "os"),
        Evil(np.load, "x"),
        Evil(os.path.join, "a"),
        Evil(bytearray, 10),
        np.float64(1),
        np.array([object()]),
        np.array(["text"]),
        np.zeros(2, [("a", "u1")]),
        np.array(["2020-01-01"], "M8[D]"),
        Path("x"),
        {1, 2}.__class__,
        ValueError("x"),
    ],
    ids=lambda evil: evil.call[0].__name__ if isinstance(evil, Evil) else type(evil).__name__,
)
def test_nothing_but_plain_data_is_accepted(write, evil):
    with pytest.raises(TailcloudError, match=r"batch (refers to|is truncated, damaged, or not a pickle)"):
        load_pickle(write(pickle.dumps({"data": evil})))


def test_old_style_instances_are_refused(write):
    with pytest.raises(TailcloudError, match=r"refers to posix\.system"):
        load_pickle(write(b"(S'true'\niposix\nsystem\n."))


def test_the_remedy_of_the_caller_ends_the_sentence(write):
    with pytest.raises(TailcloudError, match=r"not a pickle; ask Alice$"):
        load_pickle(write(b"hello"), remedy="ask Alice")


def test_every_truncation_is_a_sentence(write):
    whole = pickle.dumps({"data": np.arange(40, dtype=np.uint8), "labels": [1, 2, 3]}, 2)
    for length in range(len(whole)):
        with pytest.raises(TailcloudError, match="truncated, damaged, or not a pickle; get the file again"):
            load_pickle(write(whole[:length]))


@given(content=st.binary(max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_give_a_dictionary_or_a_sentence(write, content):
    with suppress(TailcloudError):
        assert isinstance(load_pickle(write(content)), dict)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_flipped_byte_gives_a_dictionary_or_a_sentence(write, data):
    whole = bytearray(pickle.dumps({"data": np.arange(40, dtype=np.uint8).reshape(8, 5), "labels": [1, 2]}, 2))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(TailcloudError):
        assert isinstance(load_pickle(write(bytes(whole))), dict)


# Each claims half a gigabyte.
BOMBS = {
    "memo": b"\x80\x02}r" + (2**26).to_bytes(4, "little") + b".",
    "bytes": b"\x80\x04\x8e" + (2**29).to_bytes(8, "little") + b"x.",
    "bytearray": b"\x80\x05\x96" + (2**29).to_bytes(8, "little") + b"x.",
    "frame": b"\x80\x04\x95" + (2**29).to_bytes(8, "little") + b"}.",
    "builtin": b"\x80\x02}U\x01ac__builtin__\nbytes\nJ\x00\x00\x00\x20\x85Rs.",
}


@pytest.mark.parametrize("content", BOMBS.values(), ids=BOMBS)
def test_a_small_file_cannot_claim_much_memory(write, content):
    path = write(content)
    tracemalloc.start()
    with suppress(TailcloudError):
        load_pickle(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_arrays_must_have_the_bytes_they_claim(write):
    short = pickle.dumps({"data": np.zeros((2, 2), np.uint8)}, 2).replace(b"K\x02K\x02\x86", b"K\x03K\x02\x86")
    with pytest.raises(TailcloudError, match="truncated, damaged"):
        load_pickle(write(short))


@pytest.mark.parametrize("content", [[1, 2], "text", {1: 2}, None])
def test_something_else_than_named_values(write, content):
    with pytest.raises(TailcloudError, match="does not have a dictionary with text keys"):
        load_pickle(write(pickle.dumps(content)))


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path):
    with pytest.raises(TailcloudError, match="nowhere is missing"):
        load_pickle(tmp_path / "nowhere")
    with pytest.raises(TailcloudError, match="cannot be read: Is a directory"):
        load_pickle(tmp_path)


def test_a_huge_file_is_not_read(write, monkeypatch):
    monkeypatch.setattr(safe_pickle, "MAX_BYTES", 10)
    with pytest.raises(TailcloudError, match="has 11 bytes, more than the 10 allowed"):
        load_pickle(write(b"x" * 11))
