"""Pauses of the garbage collector."""

import gc
from threading import Event, Thread

import pytest

from tailcloud.garbage_collection import collection_paused


def test_the_collector_is_on_again_after_the_last_of_overlapping_pauses():
    """A run that has compiled its kernels must not switch it on while another captures a graph."""
    inside, leave = Event(), Event()

    def pause():
        with collection_paused():
            inside.set()
            leave.wait(5)

    other = Thread(target=pause)
    with collection_paused():
        other.start()
        inside.wait(5)
    assert not gc.isenabled()
    leave.set()
    other.join(5)
    assert gc.isenabled()


@pytest.mark.parametrize("enabled", [True, False])
def test_a_pause_leaves_the_collector_as_it_was_also_after_an_error(enabled):
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(KeyError), collection_paused(), collection_paused():
            raise KeyError
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
