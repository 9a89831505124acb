"""ImageNet-LT, Places-LT and iNaturalist 2018 as published: lists, numbers, and folders where files may be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

OLTR = "github.com/zhmiao/OpenLongTailRecognition-OLTR"


@dataclass(frozen=True)
class Edition:
    """A benchmark that was published as lists of files.

    Args:
        title: its name.
        lists: the file names of its lists by split, without suffix.
        images: the number of images in each list.
        classes: the number of classes.
        folders: folders below ROOT where lists and images may be, besides ROOT itself.
        starts: the folders that paths of its lists begin with; anything before them depends on the machine.
        patterns: layouts of the files, as ``placed`` takes them, the likeliest first.
        images_of: the data set that the images are from.
        images_from: where to get the images.
        lists_from: where to get the lists.
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
        """The folders as text."""
        return ", ".join(f"{folder}/" for folder in self.folders)

    def below(self, path: str) -> str:
        """A path of a list from the first known folder on: ``data/train/x.jpg`` becomes ``train/x.jpg``."""
        folders = path.split("/")
        place = next((place for place, folder in enumerate(folders) if folder in self.starts), 0)
        return "/".join(folders[place:]) if ".." not in folders[:place] and not path.startswith("/") else path

    def class_name(self, path: str) -> str:
        """The class of a path, by its folder."""
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
