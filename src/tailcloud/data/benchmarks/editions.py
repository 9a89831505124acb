"""The large benchmarks as they were published: lists, numbers, and where files are looked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

OLTR = "github.com/zhmiao/OpenLongTailRecognition-OLTR"


@dataclass(frozen=True)
class Edition:
    """A benchmark.

    Args:
        title: its name.
        lists: the names of its lists by part, without ending.
        images: lines of each list.
        classes: how many there are.
        folders: where lists and images are looked for below the data folder, beside that folder itself.
        starts: the folders that paths of its lists begin with; what stands before them is of one machine or another.
        patterns: how files may be laid out, in the words of ``placed``, the likeliest first.
        images_of: what the images are of, in words.
        images_from: where they are had.
        lists_from: where the lists are had.
        nested: whether a class may be more than one folder deep.
    """

    title: str
    lists: Mapping[str, str]
    images: Mapping[str, int]
    classes: int
    folders: Sequence[str]
    starts: Sequence[str]
    patterns: Sequence[str]
    images_of: str
    images_from: str
    lists_from: str
    nested: bool = False

    @property
    def looked_for(self) -> str:
        """The folders in words."""
        return ", ".join(f"{folder}/" for folder in self.folders)

    def below(self, path: str) -> str:
        """A path of a list from the first of the known folders on: ``data/train/x.jpg`` is ``train/x.jpg``."""
        folders = path.split("/")
        place = next((place for place, folder in enumerate(folders) if folder in self.starts), 0)
        return "/".join(folders[place:]) if ".." not in folders[:place] and not path.startswith("/") else path

    def class_name(self, path: str) -> str:
        """The class that a path is in, by its folder."""
        folders = path.split("/")[:-1]
        if not self.nested:
            return folders[-1] if folders else ""
        inner = folders[1:]
        return "-".join(inner[1:] if len(inner) > 1 and len(inner[0]) == 1 else inner)  # a folder for each letter


EDITIONS = {
    "imagenet-lt": Edition(
        "ImageNet-LT",
        {"train": "ImageNet_LT_train", "val": "ImageNet_LT_val", "test": "ImageNet_LT_test"},
        {"train": 115_846, "val": 20_000, "test": 50_000},
        1000,
        ("imagenet-lt", "ImageNet_LT", "ImageNet", "imagenet", "ILSVRC2012", "ILSVRC/Data/CLS-LOC"),
        ("train", "val"),
        ("{path}", "{first}/{file}", "{rest}"),
        "ILSVRC 2012",
        "image-net.org",
        OLTR,
    ),
    "places-lt": Edition(
        "Places-LT",
        {"train": "Places_LT_train", "val": "Places_LT_val", "test": "Places_LT_test"},
        {"train": 62_500, "val": 7_300, "test": 36_500},
        365,
        ("places-lt", "Places_LT", "Places365", "places365", "Places", "places"),
        ("train", "val", "data_256", "data_large"),
        (
            "{path}",
            "{first}/{file}",
            *(f"{folder}/{{letter}}/{{nested}}/{{file}}" for folder in ("data_256", "data_large")),
            *(f"{folder}_standard/{{letter}}/{{nested}}/{{file}}" for folder in ("data_256", "data_large")),
            "train/{letter}/{nested}/{file}",
            "data_256/{class}/{file}",
            "train/{class}/{file}",
            "val_256/{file}",
            "val_large/{file}",
            "{rest}",
        ),
        "Places365",
        "places2.csail.mit.edu",
        OLTR,
        nested=True,
    ),
    "inat2018": Edition(
        "iNaturalist 2018",
        {"train": "iNaturalist18_train", "test": "iNaturalist18_val"},
        {"train": 437_513, "test": 24_426},
        8142,
        ("inat2018", "iNaturalist18", "iNaturalist2018", "inaturalist2018", "inat18"),
        ("train_val2018",),
        ("{path}", "{rest}"),
        "iNaturalist 2018",
        "github.com/visipedia/inat_comp",
        "github.com/facebookresearch/classifier-balancing",
    ),
}
