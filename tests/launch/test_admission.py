"""The door of a fleet: more runs as long as that pays by wall clock and memory holds them."""

from threading import Thread

import pytest
import torch

from tailcloud.launch.admission import FIRST_GROUP, WINDOW_EPOCHS, Admission, room_on_gpu


def plenty(_inside):
    return 1000


class Gpu:
    """Runs on a clock that only they move: everybody trains an epoch, which takes as long as the number says."""

    def __init__(self, room=plenty, fixed=None):
        self.now = 0.0
        self.door = Admission(room, fixed, clock=lambda: self.now)
        self.runs = []
        self.epochs = 0

    def fill(self):
        while self.door.inside < self.door.limit:
            self.runs.append(len(self.runs))
            self.door.enter(self.runs[-1])
        return self

    def train(self, epochs, seconds, *, evaluate_every=1, pause=0.0):
        """As many epochs of all runs; one with an evaluation takes ``pause`` longer."""
        for _ in range(epochs):
            self.epochs += 1
            evaluated = self.epochs % evaluate_every == 0
            self.now += seconds + pause * evaluated
            for run in self.runs:
                self.door.epoch(run, 3, evaluated=evaluated)
        return self

    def window(self, seconds, **evaluations):
        """Enough epochs for a decision, with those in which runs are still being set up."""
        return self.fill().train(2 + 2 * WINDOW_EPOCHS, seconds, **evaluations)


def alone(**options):
    """A GPU whose first run has shown that an epoch takes a second."""
    gpu = Gpu(**options).fill()
    assert gpu.door.inside == 1
    return gpu.train(2, 1.0)


def test_one_run_is_let_in_first_then_four_and_twice_as_many_while_that_pays():
    gpu = alone()
    assert gpu.door.limit == FIRST_GROUP == 4
    assert gpu.window(2.0).door.limit == 8  # 2 epochs a second instead of 1
    assert gpu.window(2.5).door.limit == 16  # 3.2


def test_what_did_not_pay_is_taken_back_once_runs_leave():
    gpu = alone().window(2.0)
    gpu.window(3.8)  # 2.1 epochs a second: not a tenth more than 2
    assert (gpu.door.limit, gpu.door.inside) == (4, 8)
    gpu.train(50, 0.1)  # decided is decided
    assert gpu.door.limit == 4


@pytest.mark.parametrize(
    ("seconds", "waiting", "room", "inside"),
    [(3.8, 3, 1000, 11), (3.8, 6, 1000, 10), (3.8, 4, 1000, 8), (3.8, 3, 9, 9), (5.0, 3, 1000, 8)],
    ids=["all that wait", "those left over by groups of four", "none is left over", "as many as fit", "slower"],
)
def test_runs_that_would_be_a_small_last_group_enter_before(seconds, waiting, room, inside):
    """Four runs are as fast as eight; of those that wait, the ones that make no group of four enter at once."""
    gpu = alone().window(2.0).fill()
    assert gpu.door.inside == 8
    late = [Thread(target=gpu.door.enter, args=[100 + run], daemon=True) for run in range(waiting)]
    for thread in late:
        thread.start()
    while len(gpu.door.waiting) < waiting:
        pass
    gpu.door.room = lambda _inside: room
    gpu.train(2 + 2 * WINDOW_EPOCHS, seconds)
    assert gpu.door.limit == 4
    for thread in late[: inside - 8]:
        thread.join(5)
    for thread in late[inside - 8 :]:
        thread.join(0.1)  # it would enter now, if it were allowed to
    assert gpu.door.inside == inside
    for _ in range(inside - 3):  # from then on, four at a time
        gpu.door.leave()
    for thread in late[inside - 8 : inside - 7]:
        thread.join(5)
    assert gpu.door.inside == 3 + (waiting > inside - 8)


def test_a_model_that_fills_the_device_alone_is_trained_alone():
    assert alone().window(3.9).door.limit == 1


def test_the_first_run_is_alone_until_it_has_evaluated():
    """Before, neither its memory nor its kernels are known; but it is alone for a few epochs at the most."""
    gpu = Gpu().fill().train(2, 1.0, evaluate_every=3)
    assert gpu.door.limit == 1
    assert gpu.train(1, 1.0, evaluate_every=3).door.limit == 4
    gpu = Gpu().fill().train(WINDOW_EPOCHS, 1.0, evaluate_every=1000)
    assert gpu.door.limit == 1
    assert gpu.train(1, 1.0, evaluate_every=1000).door.limit == 4


def test_what_lies_between_two_epochs_counts():
    """Eight runs would train twice as many epochs as four, but each waits for others after an epoch."""
    gpu = alone().window(2.0)
    for _ in range(20):
        gpu.fill().now += 1.9  # checkpoints, one after the other
        gpu.train(1, 2.0)
    assert gpu.door.limit == 4


@pytest.mark.parametrize("start", range(5))
@pytest.mark.parametrize(("slower", "limit"), [(1.75, 16), (1.9, 4)], ids=["pays", "does not pay"])
def test_it_makes_no_difference_where_among_the_evaluations_a_window_starts(slower, limit, start):
    """Every fifth epoch is evaluated, which doubles its time."""
    gpu = alone()
    gpu.window(1.0, evaluate_every=5, pause=1.0)
    gpu.epochs = start
    assert gpu.window(slower, evaluate_every=5, pause=slower).door.limit == limit


def test_epochs_while_others_are_set_up_do_not_count():
    gpu = alone().fill()
    for _ in range(20):  # three runs are still capturing, and the first has the device for itself
        gpu.now += 1.0
        gpu.door.epoch(0, 3, evaluated=True)
    assert gpu.window(3.9).door.limit == 1


def test_a_run_that_leaves_makes_room_at_once_and_starts_the_measurement_again():
    gpu = alone().fill().train(1 + WINDOW_EPOCHS, 0.5)
    gpu.door.leave()
    gpu.runs.pop()
    gpu.fill()
    assert gpu.door.inside == 4
    gpu.train(WINDOW_EPOCHS, 2.0)
    assert gpu.door.limit == 4
    assert gpu.train(WINDOW_EPOCHS, 2.0).door.limit == 8


def test_a_stage_that_trains_the_head_alone_counts_for_less():
    gpu = alone().fill()
    for _ in range(2 * WINDOW_EPOCHS):
        gpu.now += 1.4  # 2.9 epochs a second, but of a third of the work
        for run in gpu.runs:
            gpu.door.epoch(run, 1, evaluated=True)
    assert gpu.door.limit == 1


def test_memory_bounds_the_number_but_never_below_those_inside():
    for room, limit in ((6, 6), (3, 4)):
        gpu = alone()
        gpu.door.room = lambda _inside, room=room: room
        assert gpu.window(1.0).door.limit == limit


def test_room_is_asked_for_with_the_number_inside():
    asked = []
    gpu = alone(room=lambda inside: asked.append(inside) or 3)
    gpu.fill().train(2 + WINDOW_EPOCHS, 1.0)
    assert asked == [1, 3]


def test_a_place_that_becomes_free_is_taken_by_the_first_run_that_waits():
    door, entered = Gpu().fill().door, []
    waiting = [Thread(target=lambda run=run: (door.enter(run), entered.append(run))) for run in (3, 1, 2)]
    for thread in waiting:
        thread.start()
    while len(door.waiting) < 3:
        pass
    assert entered == []
    for count in (1, 2, 3):
        door.leave()
        waiting[(1, 2, 0)[count - 1]].join(5)
        assert entered == [1, 2, 3][:count]
    assert door.inside == 1


def test_a_fixed_number_stays():
    gpu = Gpu(fixed=3).fill()
    assert gpu.door.inside == 3
    assert gpu.window(1.0).door.limit == 3


@pytest.mark.parametrize(("reserved", "room"), [(40, 2 + 4), (0, 2 + 90)], ids=["on the GPU", "resumed on the CPU"])
def test_room_follows_from_what_those_inside_have_reserved(monkeypatch, reserved, room):
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (100, 200))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: reserved)
    assert room_on_gpu(2) == room
