"""Writing in the background: one thread for all runs, at most one write of a run waits, failures are told."""

import os
from threading import Event, Thread, get_ident

import pytest

from tailcloud.runs.checkpoint_writer import CheckpointWriter


class Busy:
    """Keeps the writing thread busy until it is released."""

    def __init__(self):
        self.started, self.released = Event(), Event()

    def __call__(self):
        self.started.set()
        assert self.released.wait(30)


@pytest.fixture
def busy():
    work, writer = Busy(), CheckpointWriter()
    writer.submit(work)
    assert work.started.wait(30)
    yield work
    work.released.set()
    writer.wait()


def test_a_newer_write_takes_the_place_of_one_that_has_not_started(busy):
    written, first, second = [], CheckpointWriter(), CheckpointWriter()
    first.submit(lambda: written.append("first, old"))
    second.submit(lambda: written.append("second"))
    first.submit(lambda: written.append("first, new"))
    busy.released.set()
    first.wait()
    second.wait()
    assert written == ["first, new", "second"]  # it keeps its turn too


def test_a_write_that_has_started_is_finished_and_the_next_one_follows():
    writer, work, written = CheckpointWriter(), Busy(), []
    writer.submit(work)
    assert work.started.wait(30)
    writer.submit(lambda: written.append("next"))
    assert not written
    work.released.set()
    writer.wait()
    assert written == ["next"]


def test_waiting_is_for_ones_own_writes_only(busy):
    CheckpointWriter().wait()
    assert not busy.released.is_set()


def test_the_end_waits_for_the_write(busy):
    writer, written = CheckpointWriter(), []
    writer.submit(lambda: written.append("last"))
    Thread(target=busy.released.set).start()
    writer.finish()
    assert written == ["last"]


def fail():
    raise OSError(28, "No space left on device", "stage1-0000001.safetensors")


def test_a_failure_is_raised_once_by_the_next_call():
    writer = CheckpointWriter()
    writer.submit(fail)
    with pytest.raises(OSError, match="No space left"):
        writer.wait()
    writer.wait()
    writer.submit(fail)
    writer.finish()
    with pytest.raises(OSError, match="No space left"):
        writer.submit(lambda: None)


def test_all_runs_share_one_thread():
    idents, writers = [], [CheckpointWriter() for _ in range(4)]
    for writer in writers:
        writer.submit(lambda: idents.append(get_ident()))
    for writer in writers:
        writer.wait()
    assert len(idents) == 4
    assert len({*idents, get_ident()}) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_writes_too(tmp_path):
    CheckpointWriter().submit(lambda: None)
    child = os.fork()
    if not child:
        writer = CheckpointWriter()
        writer.submit((tmp_path / "written").touch)
        writer.wait()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert (tmp_path / "written").exists()
