"""Labels that several pages and the model card share."""

from tailcloud.profile import FEW_BELOW, MANY_ABOVE

GROUP_BOUNDS = {
    "many": f"more than {MANY_ABOVE} training images",
    "medium": f"{FEW_BELOW} to {MANY_ABOVE} training images",
    "few": f"fewer than {FEW_BELOW} training images",
}
CLASS_FREQUENCIES = {
    "forward": "as in training",
    "uniform": "all classes equally often",
    "backward": "reversed: the rarest class is the most frequent",
}
ASSUMED_FREQUENCIES = {"train": "those of the training images", "uniform": "all classes equally often"}
SPLITS = {"test": "the test set", "val": "the validation set", "train": "the training set"}


def split_name(split: str | None) -> str:
    """A split in words: "the validation set" for "val"."""
    return SPLITS.get(split or "", split or "an unknown split")
