"""What benchmarks/kills.py kills: commands, who is hit, on which disk."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

TINY = ("model.width=0.25", "model.backbone=resnet8", "engine.threads=1", "selection.split=0.2")
DIGITS = (*TINY, "stage1.epochs=6", "stage2.epochs=3", "engine.checkpoint_seconds=0.02")
OWN = ("engine.threads=1", "selection.split=0.2", "stage1.epochs=5", "stage2.epochs=3", "stage1.batch=16")
STREAMED = (*OWN, *TINY[:2], "stage2.batch=16", "data.size=16", "data.loader=stream", "engine.workers=1")
FEATURES = (
    *OWN,
    *("model.backbone=efficientnet_lite0", "model.weights=pretrained", "data.size=40", "stage1.train=head"),
    *("stage1.views=2", "stage2.views=2"),
)
SIGNALS = ("SIGKILL", "SIGTERM", "SIGINT")
PHOTOS = {"cat": 26, "dog": 14, "emu": 8}
COPIES = 3  # pictures of cats that lie among the dogs too

Hits = tuple[tuple[str, tuple[str, ...]], ...]  # who can be hit, and by which signals


@dataclass(frozen=True)
class Place:
    """The folders of a chain: ``home`` has everything that commands write, ``photos`` the images."""

    home: Path
    photos: Path

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.home / "run"


@dataclass(frozen=True)
class Step:
    """A command of a chain, which is repeated until it ends by itself.

    Attributes:
        name: for the record.
        first: its words.
        again: its words after a kill, once a run folder is there.
        kills: the fewest and the most kills of a chain at this step.
        marks: files (patterns below ``home``) whose appearance is a moment to kill soon after, in their order.
        late_marks: the same, of files that are written after the last epoch.
        makes: the file that it makes and does not overwrite: once it is there, the command is not repeated.
        served: it serves a page until Ctrl-C.
    """

    name: str
    first: Callable[[Place], list[str]]
    again: Callable[[Place], list[str]] | None = None
    kills: tuple[int, int] = (6, 14)
    marks: tuple[str, ...] = ()
    late_marks: tuple[str, ...] = ()
    makes: str | None = None
    served: bool = False

    def is_done(self, place: Place) -> bool:
        """Whether what the command makes is there, although it was killed."""
        return self.makes is not None and (place.home / self.makes).exists()

    def words(self, place: Place) -> list[str]:
        """What to type now."""
        resumes = self.again is not None and any(place.home.rglob("recipe.toml"))
        return self.again(place) if resumes and self.again else self.first(place)


@dataclass(frozen=True)
class Scenario:
    """Commands one after the other, each killed again and again.

    Attributes:
        about: in words.
        share: of all kills, in percent.
        launcher: "forked", "shell" or "torchrun".
        epochs: of each stage, to tell from the log where a run is.
        prepared: the scenario whose finished run this one starts from.
    """

    about: str
    share: float
    steps: tuple[Step, ...]
    hits: Hits = (("process", SIGNALS),)
    launcher: str = "forked"
    disk: str = "plain"
    epochs: tuple[int, int] = (6, 3)
    prepared: str | None = None


BEFORE_EPOCHS = ("run/recipe.toml", "run/checkpoint")
CACHE_FILES = ("cache", "cache/.tmp-*", "cache/.tmp-*/aspects.f32", "cache/*/about.json")
FEATURE_FILES = ("features", "features/*/.tmp-*", "features/*/*")
AFTER_EPOCHS = ("run/examples.*", "run/model.*", "run/result.json", "run/.tmp-*", "run/report.*")


def settings(*changes: str) -> list[str]:
    """The words of --set."""
    return [word for change in changes for word in ("--set", change)]


def _resume(place: Place) -> list[str]:
    return ["train", "--resume", "--out", str(place.run)]


def _digits(place: Place) -> list[str]:
    return ["train", "digits-lt/gcl", "--device", "cpu", "--out", str(place.run), *settings(*DIGITS)]


def _streamed(place: Place) -> list[str]:
    words = ["train", "own/gcl", "--data", str(place.photos), "--device", "cpu", "--out", str(place.run)]
    return [*words, *settings(*STREAMED, f"data.cache={place.home / 'cache'}", "engine.checkpoint_seconds=0.02")]


def _decoded(place: Place) -> list[str]:
    words = ["train", "own/gcl", "--data", str(place.photos), "--device", "cpu", "--out", str(place.run)]
    return [*words, *settings(*STREAMED, "engine.checkpoint_seconds=0")]


def _features(place: Place) -> list[str]:
    words = ["train", "own/gcl", "--data", str(place.photos), "--device", "cpu", "--out", str(place.run)]
    return [*words, *settings(*FEATURES, f"data.feature_cache={place.home / 'features'}")]


def _fleet(place: Place) -> list[str]:
    seeds = [word for seed in range(4) for word in ("--seed", str(seed))]
    words = ["train", "digits-lt/gcl", "--device", "cpu", "--out", str(place.home / "runs")]
    return [*words, *seeds, *settings(*DIGITS)]


def _resume_fleet(place: Place) -> list[str]:
    return [*_fleet(place), "--resume"]


def _report(place: Place) -> list[str]:
    return ["report", str(place.run)]


def _export(format_name: str) -> Callable[[Place], list[str]]:
    return lambda place: ["export", str(place.run), "--to", format_name, "--force"]


def _suspects(place: Place) -> list[str]:
    return ["review", str(place.run), "--csv", str(place.home / "suspects.csv")]


def _page(place: Place) -> list[str]:
    return ["review", str(place.run)]


DIGITS_STEP = Step("train", _digits, _resume, marks=BEFORE_EPOCHS, late_marks=AFTER_EPOCHS)
AFTERWARDS = (
    Step("report", _report, kills=(3, 6), marks=("run/.tmp-*",)),
    Step("export", _export("safetensors"), kills=(3, 6), marks=("run/.tmp-*", "run/portable.*")),
)
SCENARIOS = {
    "digits": Scenario("one process, digits", 40, (DIGITS_STEP, *AFTERWARDS)),
    "shell": Scenario("one process, digits, started from a shell", 5, (DIGITS_STEP, *AFTERWARDS), launcher="shell"),
    "cache": Scenario(
        "one process, image files, `data.cache`",
        14,
        (Step("train", _streamed, _resume, marks=(*CACHE_FILES, *BEFORE_EPOCHS), late_marks=AFTER_EPOCHS),),
        hits=(("process", SIGNALS), ("decoder", ("SIGKILL", "SIGTERM"))),
        epochs=(5, 3),
    ),
    "decoders": Scenario(
        "one process, image files, decoder processes",
        15,
        (Step("train", _decoded, _resume, marks=BEFORE_EPOCHS, late_marks=AFTER_EPOCHS),),
        hits=(("process", SIGNALS), ("decoder", ("SIGKILL", "SIGTERM"))),
        epochs=(5, 3),
    ),
    "features": Scenario(
        "one process, features of EfficientNet-Lite0",
        6,
        (Step("train", _features, _resume, marks=(*BEFORE_EPOCHS, *FEATURE_FILES), late_marks=AFTER_EPOCHS),),
        epochs=(5, 3),
    ),
    "review": Scenario(
        "`tailcloud review`: list and page",
        2,
        (
            Step("review --csv", _suspects, kills=(2, 4), makes="suspects.csv"),
            Step("review", _page, kills=(2, 4), served=True),
        ),
        epochs=(5, 3),
        prepared="features",
    ),
    "export": Scenario(
        "`tailcloud export` to pt2",
        1,
        (Step("export", _export("pt2"), kills=(3, 6), marks=("run/.tmp-*", "run/model.pt2")),),
        prepared="digits",
    ),
    "fleet": Scenario(
        "a fleet of four",
        2,
        (
            Step(
                "train",
                _fleet,
                _resume_fleet,
                kills=(7, 14),
                marks=("runs/*/recipe.toml",),
                late_marks=("runs/*/model.*",),
            ),
        ),
        hits=(("parent", SIGNALS), ("worker", ("SIGKILL", "SIGTERM")), ("terminal", ("SIGINT",))),
    ),
    "ranks": Scenario(
        "two ranks under torchrun",
        2,
        (Step("train", _digits, _resume, kills=(7, 14), marks=BEFORE_EPOCHS, late_marks=AFTER_EPOCHS),),
        hits=(("rank", SIGNALS), ("launcher", ("SIGTERM", "SIGINT"))),
        launcher="torchrun",
    ),
    "full disk": Scenario("one process, a disk that fills up", 4, (DIGITS_STEP, *AFTERWARDS), disk="full"),
    "read-only disk": Scenario(
        "one process, a disk that turns read-only", 5, (DIGITS_STEP, *AFTERWARDS), disk="read-only"
    ),
    "slow disk": Scenario("one process, a slow disk", 4, (DIGITS_STEP, *AFTERWARDS), disk="slow"),
}


def draw_photos(folder: Path) -> Path:
    """Three classes of small pictures; some lie in two classes, so that a review finds something."""
    if folder.exists():
        return folder
    for column, (name, count) in enumerate(PHOTOS.items()):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            pixels = np.random.default_rng([column, number]).integers(0, 100, (40, 40, 3))
            pixels[:, :, column] += 120
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")
    for number in range(COPIES):
        shutil.copy(folder / "cat" / f"{number}.png", folder / "dog" / f"copy{number}.png")
    return folder
