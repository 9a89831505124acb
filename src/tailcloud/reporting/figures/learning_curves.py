"""Learning curves: loss with the learning rate below it, and accuracy, over the epochs of all stages."""

from collections.abc import Mapping, Sequence

from tailcloud.formatting import counted, percent
from tailcloud.profile import GROUPS
from tailcloud.reporting.figures.svg import WIDTH, Canvas, Figure, Scale, round_step
from tailcloud.reporting.labels import best_of, split_name
from tailcloud.runs.epoch_log import Epoch
from tailcloud.runs.result import Result

CURVES = {"top1": "top-1, test", "val_top1": "top-1, validation", "many": "many", "medium": "medium", "few": "few"}


def plot_loss(log: Sequence[Epoch]) -> Figure:
    """Training loss, with the learning rate below it."""
    losses = [entry.loss for entry in log if entry.loss is not None]
    lost = len(log) - len(losses)
    canvas = Canvas(f"Training loss over {counted(len(log), 'epoch')}", 340)
    x, y = epoch_scale(len(log)), Scale(min([0.0, *losses]), _above(losses), 210, 20)
    canvas.y_axis(x, y, title="loss")
    canvas.x_axis(x, y, whole_ticks(x))
    stage_bounds(canvas, log, x, (y.end, 296))
    canvas.line([(x(place), y(entry.loss)) for place, entry in _places(log) if entry.loss is not None], "ink")
    _learning_rate(canvas, log, x)
    canvas.columns(epoch_columns(x, len(log)), Scale(0, 1, 296, y.end), [_loss_text(entry) for entry in log])
    diverged = f" In {counted(lost, 'epoch')} the loss was not finite: training diverged." if lost else ""
    caption = (
        "Mean training loss of each epoch, and the learning rate below it. Each stage has its own loss: compare values "
        f"within a stage only.{diverged}"
    )
    return Figure("Loss and learning rate", canvas.svg(), caption)


def plot_accuracy(result: Result, log: Sequence[Epoch]) -> Figure:
    """Top-1 accuracy and that of the shot groups, after each epoch that was evaluated."""
    shown = {key: words for key, words in CURVES.items() if any(getattr(entry, key) is not None for entry in log)}
    canvas = Canvas(f"Accuracy over {counted(len(log), 'epoch')}: {', '.join(shown.values())}", 340)
    x, y = epoch_scale(len(log)), Scale(0, 100, 296, 20)
    canvas.y_axis(x, y, title="accuracy, %")
    canvas.x_axis(x, y, whole_ticks(x), title="epoch")
    stage_bounds(canvas, log, x, (y.end, y.start))
    for key in reversed(shown):
        values = ((place, getattr(entry, key)) for place, entry in _places(log))
        points = [(x(place), y(value)) for place, value in values if value is not None]
        canvas.line(points, f"thin {key}" if key in GROUPS else key)
    best = _mark_best(canvas, result, log, x, y)
    canvas.columns(epoch_columns(x, len(log)), y, [_accuracy_text(entry, shown) for entry in log])
    caption = f"Accuracy in percent after each evaluated epoch, overall and by shot group{best}."
    return Figure("Accuracy while training", canvas.svg(), caption, tuple(shown.items()))


def _places(log: Sequence[Epoch]) -> list[tuple[int, Epoch]]:
    return list(enumerate(log, start=1))


def epoch_scale(epochs: int) -> Scale:
    """The horizontal scale of a number of epochs."""
    return Scale(1, max(2, epochs), 48, WIDTH - 12)


def epoch_columns(x: Scale, epochs: int) -> Scale:
    """The scale on which every epoch has a column of its own, around its place on ``x``."""
    half = (x(2) - x(1)) / 2
    return Scale(0, 1, x(1) - half, x(epochs) + half)


def _loss_text(entry: Epoch) -> str:
    rate = "" if entry.lr is None else f"\nlearning rate {entry.lr:.3g}"
    loss = "not finite" if entry.loss is None else f"{entry.loss:.3g}"
    return f"{entry.stage}, epoch {entry.epoch}\nloss {loss}{rate}"


def _accuracy_text(entry: Epoch, curves: Mapping[str, str]) -> str:
    values = {words: getattr(entry, key) for key, words in curves.items()}
    measured = [f"{words} {percent(value)}" for words, value in values.items() if value is not None]
    return "\n".join([f"{entry.stage}, epoch {entry.epoch}", *(measured or ["not evaluated"])])


def whole_ticks(x: Scale) -> list[float]:
    """Round epoch numbers, and the first epoch."""
    return sorted({1.0, *(tick for tick in x.ticks() if tick > 1 and tick == int(tick))} - {0.0})


def _above(values: Sequence[float]) -> float:
    top = max([*values, 0.0]) or 1.0
    step = round_step(top / 5)
    return step * -(-top // step)


def stage_bounds(canvas: Canvas, log: Sequence[Epoch], x: Scale, span: tuple[float, float]) -> None:
    """A dashed line and a name where a stage begins."""
    previous = ""
    for place, entry in _places(log):
        if entry.stage == previous:
            continue
        left = x(place - 0.5) if previous else x.start
        if previous:
            canvas.rule((left, span[0] - 8), (left, span[1]), "bound")
        room = x.end - left > 60
        canvas.text((left + 4 if room else x.end, span[0] - 6), entry.stage, "tick", anchor="start" if room else "end")
        previous = entry.stage


def _learning_rate(canvas: Canvas, log: Sequence[Epoch], x: Scale) -> None:
    rates = [entry.lr for entry in log if entry.lr is not None]
    if not rates:
        return
    y = Scale(0, max(rates) or 1.0, 296, 252)
    canvas.rule((x.start, y.start), (x.end, y.start), "grid")
    canvas.text((x.start - 7, y.end + 6), f"{max(rates):.2g}", "tick", anchor="end")
    canvas.text((x.start - 7, y.start + 4), "0", "tick", anchor="end")
    canvas.line([(x(place), y(entry.lr)) for place, entry in _places(log) if entry.lr is not None], "faint-solid thin")
    canvas.text((x.end, y.end - 2), "learning rate", "tick", anchor="end")
    canvas.text(((x.start + x.end) / 2, y.start + 20), "epoch", "tick", anchor="middle")


def _mark_best(canvas: Canvas, result: Result, log: Sequence[Epoch], x: Scale, y: Scale) -> str:
    """A ring at the best epoch; returns the end of the caption."""
    best = result.top1.best_epoch
    if best is None or result.top1.best is None:
        return ""
    for place, entry in _places(log):
        if (entry.stage, entry.epoch) == (best.stage, best.epoch):
            canvas.dots([(x(place), y(result.top1.best))], "ring")
            canvas.dots([(x(place), y(result.top1.best))], "hole")
            among = best_of([result]) or "best epoch"
            return f"; the ring marks the {among}, chosen on {split_name(result.top1.best_on)}"
    return ""
