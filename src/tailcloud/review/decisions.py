"""What a person decided about images. Every decision is saved at once, as is the list of images that follows from it.

OUT.csv has the columns path, label and split, for ``tailcloud train --data OUT.csv``; OUT.json beside it has the
decisions, with which a later review goes on.
"""

import csv
import io
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Literal, get_args

from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import check_output, read_json, write_atomically, write_json
from tailcloud.formatting import counted, some_of
from tailcloud.review.review_images import ReviewImages
from tailcloud.review.review_items import ReviewItem

Action = Literal["keep", "relabel", "drop"]
Key = tuple[str, ...]  # the image of an item, or both of a pair
ACTIONS = get_args(Action)
GROUP_COLUMN = "group"


@dataclass(frozen=True)
class Decision:
    """``image`` (its name) keeps its label, gets ``label``, or is dropped; ``other`` is its duplicate, if any."""

    image: str
    action: Action
    label: str | None = None
    other: str | None = None

    @property
    def key(self) -> Key:
        """The item that was decided."""
        return _key(self.image, self.other)


def _key(image: str, other: str | None) -> Key:
    return (image,) if other is None else tuple(sorted((image, other)))


def check_list(out: Path) -> None:
    """Refuse a CSV that cannot be written, or that is not of a review.

    Raises:
        UsageError: with the reason.
    """
    check_output("--out", out, folder=False)
    if out.suffix.lower() != ".csv":
        raise UsageError(f"--out {out} must end in .csv, so that it can be read as a list of images")
    if out.exists() and not _record(out).exists():
        raise UsageError(f"{out} exists already and is not of a review; choose another file with --out")


def _record(out: Path) -> Path:
    return out.with_suffix(".json")


class Decisions:
    """The decisions of a review in order, and the files that they are saved in.

    Args:
        images: all images of the run.
        out: the CSV to write.
    """

    def __init__(self, images: ReviewImages, out: Path) -> None:
        self.images, self.out, self.record = images, out, _record(out)
        self.made: dict[Key, Decision] = {}
        self._lock = Lock()  # the page is served by threads
        self._known = _stamp(self.record)
        self._groups = [[]] * len(images) if images.groups is None else [[str(each)] for each in images.groups.tolist()]

    @classmethod
    def load(cls, images: ReviewImages, out: Path) -> "Decisions":
        """The decisions that were made before, if there are any."""
        found = cls(images, out)
        if found.record.exists():
            decisions = [_decision(found.record, entry) for entry in _entries(found.record)]
            found.made = {decision.key: decision for decision in decisions}
        return found

    def decide(self, item: ReviewItem, image: int, action: Action, label: str | None = None) -> None:
        """Add a decision about an item, on its ``image`` or its duplicate, in the place of an earlier one; save it."""
        names, other = self.images.names, item.image if image == item.other else item.other
        decision = Decision(names[image], action, label, None if other is None else names[other])
        with self._lock:
            kept = {key: made for key, made in self.made.items() if key != decision.key}
            self._save({**kept, decision.key: decision})

    def undo(self) -> Decision | None:
        """Take the last decision back; None if there is none."""
        with self._lock:
            if not self.made:
                return None
            *kept, (_, last) = self.made.items()
            self._save(dict(kept))
            return last

    def of(self, item: ReviewItem) -> Decision | None:
        """The decision about an item."""
        names = self.images.names
        return self.made.get(_key(names[item.image], None if item.other is None else names[item.other]))

    def changes(self) -> dict[str, Decision]:
        """The images that get another label or are dropped; the last decision about an image counts."""
        return {made.image: made for made in self.made.values() if made.action != "keep"}

    def _save(self, made: dict[Key, Decision]) -> None:
        if _stamp(self.record) != self._known:
            raise TailcloudError(f"{self.record} was changed by another review; end one of them and start again")
        write_json(self.record, {"decisions": [asdict(one) for one in made.values()]})
        self.made, self._known = made, _stamp(self.record)
        self.write_list()

    def write_list(self) -> None:
        """Write the CSV: every image that is not dropped, with its label and split."""
        file = io.StringIO()
        rows = csv.writer(file, lineterminator="\n")
        images, changes, classes = self.images, self.changes(), self.images.class_names
        rows.writerow(["path", "label", "split", *([] if images.groups is None else [GROUP_COLUMN])])
        for name, path, label, split, group in zip(
            images.names, images.paths, images.labels.tolist(), images.splits, self._groups, strict=True
        ):
            change = changes.get(name)
            if change is None or change.action == "relabel":
                rows.writerow([path, change.label if change else classes[label], split, *group])
        write_atomically(self.out, file.getvalue())

    def remarks(self) -> list[str]:
        """What a person should know about the list."""
        images, changes, remarks = self.images, self.changes(), []
        trained, tested = set[str](), set[str]()
        for name, label, split in zip(images.names, images.labels.tolist(), images.splits, strict=True):
            change = changes.get(name)
            if change is None or change.action == "relabel":
                (trained if split == "train" else tested).add((change and change.label) or images.class_names[label])
        if untrained := sorted(tested - trained):
            remarks.append(
                f"{some_of(untrained)}: no training image is left, so training would refuse the list; undo a decision "
                "there, or drop the other images of the class too."
            )
        if unnamed := sum(not str(path).isprintable() for path in images.paths):
            remarks.append(
                f"{counted(unnamed, 'file')} with a name that is not plain text: a list cannot hold it; rename these."
            )
        return remarks


def _stamp(file: Path) -> tuple[int, int] | None:
    """What changes if another process writes a file; None if there is none."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_ino


def _entries(record: Path) -> list[object]:
    entries = read_json(record).get("decisions")
    if not isinstance(entries, list):
        raise TailcloudError(f"{record} has no decisions: it is damaged or not of a review; remove it to start again")
    return entries


def _decision(record: Path, entry: object) -> Decision:
    try:
        made = Decision(**entry)  # type: ignore[arg-type]
    except TypeError:
        made = Decision("", "keep")
    texts = made.image, made.label or "", made.other or ""
    unlabelled = made.action == "relabel" and not made.label
    if not made.image or unlabelled or made.action not in ACTIONS or not all(isinstance(text, str) for text in texts):
        raise TailcloudError(f"{record} has a decision that is none: {str(entry)[:80]}; remove it to start again")
    return made
