"""The door of a fleet: more runs as long as that pays and memory holds them."""

from threading import Thread

import pytest
import torch

from tailcloud.training.admission import Admission, room_on_gpu


def plenty(_inside):
    return 1000


def train(door, runs, seconds):
    """Every run trains two epochs: the first in a new company does not count."""
    for _ in range(2):
        for run in range(runs):
            door.epoch(run, seconds)


def filled(door):
    while door.inside < door.limit:
        door.enter()
    return door


def test_one_run_is_let_in_first_and_twice_as_many_while_that_pays():
    door = filled(Admission(plenty))
    assert door.inside == 1
    train(door, 1, 1.0)
    assert door.limit == 2
    train(filled(door), 2, 1.2)  # 1.67 epochs a second instead of 1
    assert door.limit == 4
    train(filled(door), 4, 2.2)  # 1.82: not a tenth more than 1.67
    assert door.limit == 4
    train(door, 4, 0.1)  # decided is decided
    assert door.limit == 4


def test_an_epoch_that_began_in_another_company_does_not_count():
    door = filled(Admission(plenty))
    door.epoch(0, 1.0)
    assert door.limit == 1
    door.epoch(0, 1.0)
    assert door.limit == 2
    filled(door).epoch(0, 1.0)
    door.epoch(1, 1.0)
    assert door.limit == 2


def test_memory_bounds_the_number_but_never_below_those_inside():
    for room, limit in ((3, 3), (1, 2)):
        door = filled(Admission(plenty))
        train(door, 1, 1.0)
        door.room = lambda _inside, room=room: room
        train(filled(door), 2, 1.0)
        assert door.limit == limit


def test_room_is_asked_for_with_the_number_inside():
    asked = []
    door = filled(Admission(lambda inside: asked.append(inside) or 8))
    train(door, 1, 1.0)
    train(filled(door), 2, 1.0)
    assert asked == [1, 2]


def test_a_place_that_becomes_free_is_taken_by_a_run_that_waits():
    door = filled(Admission(plenty))
    waiting = Thread(target=door.enter)
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    door.leave(0)
    waiting.join(5)
    assert not waiting.is_alive()
    assert door.inside == 1


def test_a_fixed_number_stays():
    door = filled(Admission(plenty, 3))
    assert door.inside == 3
    train(door, 3, 1.0)
    assert door.limit == 3


@pytest.mark.parametrize(("reserved", "room"), [(40, 2 + 4), (0, 2 + 90)], ids=["on the GPU", "resumed on the CPU"])
def test_room_follows_from_what_those_inside_have_reserved(monkeypatch, reserved, room):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (100, 200))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: reserved)
    assert room_on_gpu(2) == room
