"""The door of a fleet: more runs as long as that pays and memory holds them."""

from threading import Thread

import pytest
import torch

from tailcloud.launch.admission import Admission, room_on_gpu


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


def test_one_run_is_let_in_first_then_eight_and_twice_as_many_while_that_pays():
    door = filled(Admission(plenty))
    assert door.inside == 1
    train(door, 1, 1.0)
    assert door.limit == 8
    train(filled(door), 8, 4.0)  # 2 epochs a second instead of 1
    assert door.limit == 16
    train(filled(door), 16, 5.0)  # 3.2
    assert door.limit == 32


def test_what_did_not_pay_is_taken_back_once_runs_leave():
    door = filled(Admission(plenty))
    train(door, 1, 1.0)
    train(filled(door), 8, 4.0)
    train(filled(door), 16, 7.5)  # 2.13 epochs a second: not a tenth more than 2
    assert (door.limit, door.inside) == (8, 16)
    train(door, 16, 0.1)  # decided is decided
    assert door.limit == 8


def test_a_model_that_fills_the_device_alone_is_trained_alone():
    door = filled(Admission(plenty))
    train(door, 1, 1.0)
    train(filled(door), 8, 7.9)
    assert door.limit == 1


def test_an_epoch_that_began_in_another_company_does_not_count():
    door = filled(Admission(plenty))
    door.epoch(0, 1.0)
    assert door.limit == 1
    door.epoch(0, 1.0)
    assert door.limit == 8
    for run in range(8):
        filled(door).epoch(run, 1.0)
    assert door.limit == 8


def test_memory_bounds_the_number_but_never_below_those_inside():
    for room, limit in ((9, 9), (3, 8)):
        door = filled(Admission(plenty))
        train(door, 1, 1.0)
        door.room = lambda _inside, room=room: room
        train(filled(door), 8, 1.0)
        assert door.limit == limit


def test_room_is_asked_for_with_the_number_inside():
    asked = []
    door = filled(Admission(lambda inside: asked.append(inside) or 5))
    train(door, 1, 1.0)
    train(filled(door), 5, 1.0)
    assert asked == [1, 5]


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
