"""Which epochs are evaluated, that it changes no weights, and that a result says among how many the best was chosen."""

import json

import pytest

from helpers.runs import Interrupted, StopAfter, Watcher, run, same_weights, small_recipe
from tailcloud.errors import UsageError
from tailcloud.recipe import Selection, load_recipe
from tailcloud.runs.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from tailcloud.training.evaluation_schedule import count_evaluated, evaluation_share, is_evaluated

AUTO = Selection()
CIFAR = evaluation_share(10_000, 12_406)
LONG = {
    "stage1": {"epochs": 21, "ema": 0.9},  # an average of the weights, which is what is evaluated
    "stage2": {"batch_norm": "moving"},
    "selection": {"split": 0.1},
}


def oracle(epochs):
    """The epochs that "auto" evaluates, one rule after the other."""
    fifth = set(range(5, epochs + 1, 5))
    last_tenth = {epoch for epoch in range(1, epochs + 1) if epoch / epochs > 0.9 + 1e-12}
    return sorted({1, epochs} | fifth | last_tenth)


def evaluated(epochs, selection=AUTO, share=CIFAR):
    return [epoch for epoch in range(1, epochs + 1) if is_evaluated(epoch, epochs, selection, share)]


@pytest.mark.parametrize("epochs", [20, 21, 29, 30, 64, 99, 100, 200, 1003])
def test_auto_is_the_first_every_fifth_and_the_last_tenth(epochs):
    assert evaluated(epochs) == oracle(epochs)
    assert count_evaluated(epochs, AUTO, CIFAR) == len(oracle(epochs))


def test_an_evaluation_takes_a_third_of_the_time_of_training_on_as_many_images():
    assert evaluation_share(300, 100) == pytest.approx(1)
    assert evaluated(30, share=evaluation_share(9, 100)) == list(range(1, 31))
    assert evaluated(30, share=evaluation_share(10, 100)) == oracle(30)


def test_a_recipe_of_cifar_is_evaluated_a_quarter_as_often():
    assert load_recipe("cifar10-lt/gcl").selection.every == "auto"
    assert (count_evaluated(200, AUTO, CIFAR), count_evaluated(30, AUTO, CIFAR)) == (57, 9)


@pytest.mark.parametrize(
    ("epochs", "selection", "share"),
    [
        (19, AUTO, CIFAR),  # a short stage
        (200, AUTO, evaluation_share(24_426, 3 * 437_513)),  # evaluated quickly
        (200, Selection(pick="best"), CIFAR),  # the kept weights depend on it
        (200, Selection(every=1), CIFAR),
    ],
)
def test_every_epoch_where_it_matters_or_costs_little(epochs, selection, share):
    assert evaluated(epochs, selection, share) == list(range(1, epochs + 1))


def test_a_number_is_taken_by_its_word_and_the_last_epoch_is_always_evaluated():
    assert evaluated(23, Selection(every=10)) == [10, 20, 23]
    assert evaluated(3, Selection(every=1000)) == [3]
    assert count_evaluated(0, AUTO, CIFAR) == 0


def test_held_out_images_and_logging_do_not_change_the_epochs():
    assert evaluated(100, Selection(split=0.1, stage="best")) == evaluated(100)


@pytest.mark.parametrize("value", ["0", "-3", "2.5", "often", "true"])
def test_other_intervals_are_refused_in_one_sentence(value):
    setting = {"0": 0, "-3": -3, "2.5": 2.5, "true": True}.get(value, value)
    with pytest.raises(
        UsageError, match=r'selection\.every = .* should be "auto" or a whole number of epochs'
    ) as error:
        load_recipe("digits-lt/gcl", [{"selection": {"every": setting}}])
    assert "more)" not in str(error.value)


@pytest.fixture(scope="module")
def auto_run(tmp_path_factory):
    """A run that is evaluated after some epochs; the folder, its result, and what an observer saw."""
    folder, watcher = tmp_path_factory.mktemp("auto") / "run", Watcher()
    return folder, run(folder, small_recipe(LONG), watcher), watcher


def test_weights_are_the_same_bits_however_often_they_are_evaluated(auto_run, tmp_path):
    folder, some, _ = auto_run
    watched = {"logging": {"gradients": True}, "selection": {"every": 1}}
    every = run(tmp_path / "every", small_recipe(LONG, watched))
    last = run(tmp_path / "last", small_recipe(LONG, {"selection": {"every": 1000}}))
    assert same_weights(folder, tmp_path / "every")
    assert same_weights(folder, tmp_path / "last")
    assert some.top1.last == every.top1.last == last.top1.last == last.top1.best
    assert [one.stages[0].best.evaluated_epochs for one in (every, some, last)] == [21, 7, 1]


def test_the_log_has_a_line_for_each_epoch_and_the_result_counts_the_evaluated_ones(auto_run):
    folder, result, watcher = auto_run
    first, second = ([line for line in watcher.lines if line["stage"] == name] for name in ("stage1", "stage2"))
    assert [line["epoch"] for line in first] == list(range(1, 22))
    assert [line["epoch"] for line in first if "top1" in line] == [1, 5, 10, 15, 19, 20, 21]
    assert all("top1" in line for line in second)
    best = result.stages[0].best
    assert best.top1 in [line["top1"] for line in first if line.get("val_top1") == max_of(first, "val_top1")]
    assert (best.evaluated_epochs, result.top1.evaluated_epochs, result.protocol.every) == (7, 2, "auto")
    assert list(json.loads((folder / "result.json").read_text())["top1"])[-2:] == ["best_epoch", "evaluated_epochs"]
    assert (result.best_of, result.best_of_all) == (2, True)


def max_of(lines, key):
    return max(line[key] for line in lines if key in line)


def test_a_resumed_run_evaluates_and_counts_the_same_epochs(auto_run, tmp_path):
    folder, result, watcher = auto_run
    for epochs in (3, 7):
        with pytest.raises(Interrupted):
            run(tmp_path / "run", small_recipe(LONG), StopAfter(epochs))
    again = Watcher()
    resumed = run(tmp_path / "run", small_recipe(LONG), again)
    assert same_weights(folder, tmp_path / "run")
    assert resumed.top1 == result.top1
    assert resumed.stages[0].best == result.stages[0].best
    assert [line.keys() for line in again.lines] == [line.keys() for line in watcher.lines[10:]]


def test_a_checkpoint_of_an_older_version_leaves_the_number_out(tmp_path):
    recipe = small_recipe({"selection": {"every": 1}}, name="digits-lt/ce")
    with pytest.raises(Interrupted):
        run(tmp_path / "run", recipe, StopAfter(2))
    for file in (tmp_path / "run" / "checkpoint").iterdir():
        old = load_checkpoint(file)
        state = {key: value for key, value in old.state.items() if key != "evaluated"}
        save_checkpoint(file.parent, "stage1", state["epoch"], Checkpoint(old.tensors, state))
    result = run(tmp_path / "run", recipe)
    assert result.top1.evaluated_epochs is result.stages[0].best.evaluated_epochs is None
    assert "evaluated_epochs" not in result.content()["top1"]
    assert (result.best_of, result.best_of_all) == (3, True)  # what every = 1 says
