"""Damaged files are read or refused with a sentence: a bounded version of benchmarks/fuzz.py."""

import json
import os
import time
from pathlib import Path
from random import Random

import fuzz
import pytest
from fuzz import Reader, case_bytes, make_readers, run_case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import mutated

from tailcloud.errors import TailcloudError

RECORD = Path(fuzz.__file__).parent / "results" / "fuzz.json"
SLOW = {"forged checkpoint": 6, "result": 12, "saved estimator": 12, "epoch log": 12}  # examples; others have more
EXAMPLES = 40
NAMES = json.loads(RECORD.read_text())["readers"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module")
def readers(home):
    return make_readers(home)


@pytest.mark.parametrize("name", [one["reader"] for one in NAMES])
def test_a_damaged_file_is_read_or_refused(name, home, readers, recwarn):
    reader = readers[name]

    @settings(max_examples=SLOW.get(name, EXAMPLES), suppress_health_check=list(HealthCheck), database=None)
    @given(st.integers(0, 2**32))
    def check(number):
        assert run_case(home, reader, case_bytes(reader, name, number, seed=1)) is None

    check()


def test_the_record_has_every_reader_and_no_crash(readers):
    record = json.loads(RECORD.read_text())
    assert [one["reader"] for one in record["readers"]] == list(readers)
    assert all(one["crashes"] == {} for one in record["readers"])
    assert all(one["cases"] > 20 for one in record["readers"])


def refuse(path):
    raise TailcloudError("it is damaged")


def crash(path):
    raise KeyError("it is damaged")


def hang(path):
    time.sleep(5)


def test_whatever_is_no_sentence_is_a_crash(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz, "WAITING", 0.1)
    assert run_case(tmp_path, Reader("file", [b"x"], refuse), b"y") is None
    assert run_case(tmp_path, Reader("file", [b"x"], crash), b"y").startswith("KeyError")
    assert run_case(tmp_path, Reader("file", [b"x"], hang), b"y").startswith("TooSlow")
    assert list(tmp_path.iterdir()) == []


def test_the_death_of_a_reader_is_a_crash_and_the_next_case_follows(tmp_path):
    def die(path):
        if path.read_bytes() == case_bytes(reader, "name", 3, 0):
            os.kill(os.getpid(), 9)

    reader = Reader("file", [b"some content"], die)
    found = fuzz.fuzz(tmp_path, "name", reader, 0, 0.5)
    assert found["crashes"] == {"the process died (-9)": 3}
    assert found["cases"] > 4


def test_a_valid_file_is_put_back(tmp_path):
    (tmp_path / "file").write_bytes(b"valid")
    run_case(tmp_path, Reader("file", [b"valid"], refuse), b"damaged")
    assert (tmp_path / "file").read_bytes() == b"valid"


def test_a_case_is_its_number():
    seeds = [b'{"a": [1, 2, {"b": "text"}], "c": 0.5}', b"path,label\na.png,cat\n"]
    assert mutated(seeds, Random(7)) == mutated(seeds, Random(7))
    different = {mutated(seeds, Random(number)) for number in range(300)}
    assert len(different) > 200
