"""Which epochs of a stage are evaluated: ``selection.every`` of a recipe.

An evaluation changes no weights. Its figures are for people who look at curves, for the best epoch, and with
``selection.pick = "best"`` for the weights that are kept.
"""

from tailcloud.recipe import Selection

AUTO_INTERVAL = 5  # epochs
FEW_EPOCHS = 20  # a shorter stage is evaluated after every epoch
CHEAP = 0.03  # of the time of training an epoch: an evaluation that takes no more follows every epoch
PASSES = 3  # forward passes that a training step on an image takes as long as


def is_evaluated(epoch: int, epochs: int, selection: Selection, share: float) -> bool:
    """Whether the model is evaluated after an epoch (the first is 1) of a stage of so many epochs.

    With ``every = "auto"`` that is the first epoch, which shows that a run works and how much memory it takes, every
    fifth one, and every one of the last tenth, where the accuracy is settled. It is every epoch if the stage has fewer
    than 20, if an evaluation is cheap, or if the weights of the best epoch are kept. The last epoch is always
    evaluated.

    What is logged makes no difference: a run is the same with or without TensorBoard. Nor do held-out images and the
    choice of the kept stage, which compares stages at their ends.

    Args:
        epoch: the epoch.
        epochs: those of the stage; if a time limit shortens it, those of the shortened stage.
        selection: the table of the recipe.
        share: ``evaluation_share`` of the run.
    """
    if epoch >= epochs:
        return True
    if selection.every != "auto":
        return epoch % selection.every == 0
    if selection.pick == "best" or epochs < FEW_EPOCHS or share <= CHEAP:
        return True
    return epoch == 1 or epoch % AUTO_INTERVAL == 0 or 10 * epoch > 9 * epochs


def evaluation_share(evaluated: int, trained: int) -> float:
    """The time of an evaluation over that of training an epoch, from the number of images of each."""
    return evaluated / max(1, PASSES * trained)


def count_evaluated(epochs: int, selection: Selection, share: float) -> int:
    """How many epochs of a stage are evaluated."""
    return sum(is_evaluated(epoch, epochs, selection, share) for epoch in range(1, epochs + 1))
