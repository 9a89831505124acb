"""The published facts about CIFAR-10 and CIFAR-100: files, checksums, archives, fingerprints of the known subsets."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """One form in which the files are published: ``sums`` has the MD5 sum of each, the test and names files last."""

    folder: str
    binary: bool
    sums: dict[str, str | None]  # None: no sum was published

    @property
    def files(self) -> list[str]:
        """Every file that is read."""
        return list(self.sums)


@dataclass(frozen=True)
class CifarEdition:
    """CIFAR-10 or CIFAR-100: what is known before a file is opened. The archive has the first layout."""

    title: str
    classes: int
    granularity: str  # what precedes "labels" in the keys of the pickles
    label_bytes: int  # of a binary record; the finest label is the last
    archive: str
    archive_sum: str
    archive_bytes: int
    layouts: tuple[Layout, ...]

    @property
    def url(self) -> str:
        """Where its author publishes the archive."""
        return f"https://www.cs.toronto.edu/~kriz/{self.archive}"


CIFAR_EDITIONS: dict[str, CifarEdition] = {
    "cifar10": CifarEdition(
        title="CIFAR-10",
        classes=10,
        granularity="",
        label_bytes=1,
        archive="cifar-10-python.tar.gz",
        archive_sum="c58f30108f718f92721af3b95e74349a",
        archive_bytes=170_498_071,
        layouts=(
            Layout(
                folder="cifar-10-batches-py",
                binary=False,
                sums={
                    "data_batch_1": "c99cafc152244af753f735de768cd75f",
                    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
                    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
                    "data_batch_4": "634d18415352ddfa80567beed471001a",
                    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
                    "test_batch": "40351d587109b95175f43aff81a1287e",
                    "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
                },
            ),
            Layout(
                folder="cifar-10-batches-bin",
                binary=True,
                sums={
                    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
                    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
                    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
                    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
                    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
                    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
                    "batches.meta.txt": None,
                },
            ),
        ),
    ),
    "cifar100": CifarEdition(
        title="CIFAR-100",
        classes=100,
        granularity="fine_",
        label_bytes=2,
        archive="cifar-100-python.tar.gz",
        archive_sum="eb9058c3a382ffc7106e4002c42a8d85",
        archive_bytes=169_001_437,
        layouts=(
            Layout(
                folder="cifar-100-python",
                binary=False,
                sums={
                    "train": "16019d7e3df5f24257cddd939b257f8d",
                    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
                    "meta": "7973b15100ade9c7d40fb424638fde48",
                },
            ),
            Layout(
                folder="cifar-100-binary",
                binary=True,
                sums={
                    "train.bin": "6172c7755cfe09b2fe270c85cebc1b15",
                    "test.bin": "4499cfba6c016c1be1438163640a0898",
                    "fine_label_names.txt": None,
                },
            ),
        ),
    ),
}

# Fingerprints of the subsets that papers compare on: a copy that yields them is right, whatever its files look like.
FINGERPRINTS = {
    "cifar10-lt:50": "d75ca0f3bca52b13",
    "cifar10-lt:100": "52e6809bb9668542",
    "cifar10-lt:200": "a3ab0e82b3f43ed6",
    "cifar100-lt:50": "9ba9f0ca297d5dab",
    "cifar100-lt:100": "9f504a6a92d24dd8",
    "cifar100-lt:200": "763f0c8f74eeeee8",
    "cifar10-lt-tune:50": "c666fdaa22026342",
    "cifar10-lt-tune:100": "72e6e83b413dc3f1",
    "cifar10-lt-tune:200": "53486831fe121eeb",
    "cifar100-lt-tune:50": "182f7f0008ced11a",
    "cifar100-lt-tune:100": "91d8db33d2113978",
    "cifar100-lt-tune:200": "c9ba010958ca2420",
}
