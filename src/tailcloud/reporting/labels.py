"""Labels that several pages and the model card share."""

from tailcloud.profile import FEW_BELOW, MANY_ABOVE
from tailcloud.runs.weights_record import WeightsRecord

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


def pretraining(weights: WeightsRecord | None) -> str:
    """The weights that training started from, in words."""
    if weights is None:
        return "none: trained from scratch"
    learned = f"trained on {weights.trained_on}" if weights.trained_on else "trained on unknown data"
    terms = f"licence {weights.licence}" if weights.licence else "licence unknown"
    return f"{weights.name}, {learned}, {terms}, from {weights.source}"


def split_name(split: str | None) -> str:
    """A split in words: "the validation set" for "val"."""
    return SPLITS.get(split or "", split or "an unknown split")
