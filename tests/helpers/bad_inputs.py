"""Bad inputs, and the sentence that each gets: the cases behind docs/errors.md.

``python tests/helpers/bad_inputs.py`` writes that page anew; the tests compare every sentence with it.
Each case prepares a folder (the working directory) and gives the words after ``tailcloud``.
"""

import contextlib
import errno
import functools
import io
import json
import os
import pickle
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
SMALL = "--set model.width=0.25 --set stage1.epochs=1 --set stage2.epochs=1"


@dataclass(frozen=True)
class Case:
    """Something wrong, and how to bring it about."""

    what: str
    words: str
    prepare: Callable[[], contextlib.AbstractContextManager | None] = lambda: None
    leaves: tuple[str, ...] = ()  # files and folders that the command writes all the same


def text(path, content):
    """Write a file before the command."""

    def prepare():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(content)

    return prepare


@functools.cache
def small_run():
    """A small run, trained once; the folder lives as long as the process."""
    home = tempfile.TemporaryDirectory()
    with contextlib.chdir(home.name):
        assert command(f"train --out run {SMALL}")[0] == 0
    return home


def trained(*, finished=True, then=lambda: None):
    """A small run of one's own in ``run`` first, then do something to it."""

    def prepare():
        shutil.copytree(Path(small_run().name, "run"), "run")
        if not finished:
            Path("run/result.json").unlink()
        return then()

    return prepare


def checkpoints(change):
    """Do something to every checkpoint of an unfinished run."""

    def then():
        for path in Path("run/checkpoint").iterdir():
            change(path)

    return trained(finished=False, then=then)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-10])


def foreign_tensors(path):
    from safetensors.torch import save_file
    from torch import zeros

    save_file({"weight": zeros(3)}, path)


def other_format(path):
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        save_file(tensors, path, file.metadata() | {"format": "7"})


def other_model(path):
    from tailcloud.runs.checkpoint import Checkpoint, load_checkpoint, save_checkpoint

    old = load_checkpoint(path)
    stage, _, epoch = path.stem.partition("-")
    tensors = {name: value for name, value in old.tensors.items() if "head" not in name}
    save_checkpoint(path.parent, stage, int(epoch), Checkpoint(tensors, old.state))


def another_run():
    """A second run, on other images."""
    assert command(f"train --data digits-lt:10 --out other {SMALL}")[0] == 0


def a_copy():
    """The same run in another folder."""
    shutil.copytree("run", "other")


def unfinished_copy():
    """A second run that was stopped."""
    a_copy()
    Path("other/result.json").unlink()


def a_wider_run():
    """A second run, of a wider network."""
    assert command(f"train --out other {SMALL} --set model.width=0.5")[0] == 0


def edited(path, **changes):
    def then():
        content = json.loads(Path(path).read_text())
        Path(path).write_text(json.dumps(content | changes))

    return then


def cifar(*, batches=5, label=None, cut=0, evil=False):
    """A CIFAR-10 folder with something wrong in it."""

    def prepare():
        folder = Path("data/cifar-10-batches-py")
        folder.mkdir(parents=True)
        content = {"data": np.zeros((10_000, 3072), np.uint8), "labels": [i % 10 for i in range(10_000)]}
        if label is not None:
            content["labels"][0] = label
        for name in [*(f"data_batch_{k + 1}" for k in range(batches)), "test_batch"]:
            (folder / name).write_bytes(pickle.dumps(content))
        (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": [f"class{c}" for c in range(10)]}))
        first = folder / "data_batch_1"
        first.write_bytes(first.read_bytes()[: -cut or None])
        if evil:
            first.write_bytes(b"cos\nsystem\n(S'touch hacked'\ntR.")

    return prepare


STREAMED = "--set data.loader=stream --set engine.workers=1"
PHOTOS = "--data photos --out run"
ARRAYS = "--data data.npz --out run"


def images(*paths):
    """Small pictures before the command."""

    def prepare():
        from PIL import Image

        for path in map(Path, paths):
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8)).save(path)

    return prepare


def inat(label, path="train_val2018/Plantae/1/1.jpg"):
    """Lists of iNaturalist 2018 in ``data``, with one line each."""

    def prepare():
        text("data/iNaturalist18_train.txt", f"{path} {label}\n")()
        text("data/iNaturalist18_val.txt", "train_val2018/Plantae/1/2.jpg 1\n")()

    return prepare


def photos():
    """A folder of two classes."""
    images(*(f"photos/{name}/{number}.png" for name in ("cat", "dog") for number in range(5)))()


def no_memory():
    """The same folder on a machine that has hardly any memory left."""
    photos()
    return mock.patch("tailcloud.data.memory.available_memory", return_value=1000)


class Evil:
    """Unpickled, it would make a folder."""

    def __reduce__(self):
        return os.mkdir, ("hacked",)


def arrays(**values):
    """An .npz file before the command."""
    return lambda: np.savez("data.npz", **values)


def lacking(package):
    """As if a package were not installed."""
    return lambda: mock.patch.dict(sys.modules, {package: None})


def failing_disk(number):
    """A disk on which nothing can be written any more."""

    def fail(_handle):
        raise OSError(number, os.strerror(number))

    return lambda: mock.patch("os.fsync", fail)


PLUGIN = """import tailcloud
class Mine(tailcloud.losses.CrossEntropyLoss):
    pass
tailcloud.register_loss("mine", Mine)
"""


def trained_with_a_plugin():
    """A finished run whose loss came from a file, in a process that is over."""
    text("my_loss.py", PLUGIN)()
    words = "train digits-lt/ce --plugin my_loss.py --set stage1.loss=mine --set stage1.epochs=0"
    subprocess.run([sys.executable, "-m", "tailcloud", *words.split(), "--out", "run"], check=True, capture_output=True)


UNDECLARED = """import torch
import tailcloud
class Mine(tailcloud.losses.Loss):
    def __init__(self, counts, *, scale: float = 1.0):
        super().__init__(scale)
    def forward(self, output, target, *, epsilon=None):
        return torch.nn.functional.cross_entropy(self.logits(output), target)
tailcloud.register_loss("mine", Mine)
"""


UNREPEATABLE = """import torch
import tailcloud
from tailcloud.objectives import Classify
class Mine(Classify):
    def forward(self, network, batch, noise):
        return super().forward(network, batch, noise) * (1 + torch.rand(()))
tailcloud.register_objective("mine", Mine)
"""
CAPTURED = """import tailcloud
from tailcloud.optimizers import Optimizer
class Mine(Optimizer):
    buffer_names = ()
    def update_unfused(self, names, rate, decay):
        for name in names:
            self.parameters[name].add_(self.parameters[name].grad, alpha=-rate)
tailcloud.register_optimizer("mine", Mine)
"""
UNCHECKED = """import tailcloud
from tailcloud.head_transforms import HeadTransform
class Mine(HeadTransform):
    def apply(self, old, new, trained):
        new.bias.copy_(old.bias)
tailcloud.register_head_transform("mine", Mine)
"""


def plugin(content, name="my_loss.py"):
    """Write a plugin whose parts are forgotten after the command."""

    def prepare():
        from tailcloud.losses import LOSSES
        from tailcloud.plugins import discovery, registry
        from tailcloud.recipe.library import PLUGIN_METHODS

        text(name, content)()
        stack = contextlib.ExitStack()
        for known in (LOSSES, PLUGIN_METHODS, discovery._files):
            stack.enter_context(mock.patch.dict(known))
        stack.enter_context(mock.patch.object(registry, "REGISTERED", set(registry.REGISTERED)))
        return stack

    return prepare


def held():
    """Another process that trains in the same folder."""
    from tailcloud.runs.folder import RunFolder

    return RunFolder(Path("run")).locked()


def other_recipe():
    """Somebody edited the recipe of a run that is under way."""
    recipe = Path("run/recipe.toml")
    recipe.write_text(recipe.read_text().replace("lr = 0.1", "lr = 0.3"))


def other_data():
    """The images are not those that the run was started on."""
    from tailcloud.data import SOURCES, open_dataset

    other = open_dataset("digits-lt:20")
    return mock.patch.dict(SOURCES, {"digits-lt": lambda *_: other})


def delete(path):
    return lambda: Path(path).unlink()


def three_hours_ago():
    """The run was killed a while ago."""
    then = time.time() - 3 * 3600
    for path in Path("run").iterdir():
        os.utime(path, (then, then))


def no_tensorboard():
    """An environment without the extra."""
    return mock.patch("tailcloud.training.tensorboard_log.find_spec", return_value=None)


def no_checkpoints():
    """Somebody made room on the disk."""
    for path in Path("run/checkpoint").iterdir():
        path.unlink()


def no_network():
    """A machine on its own."""
    return mock.patch("urllib.request.OpenerDirector.open", side_effect=OSError("Network is unreachable"))


@contextlib.contextmanager
def no_hub():
    """A machine on its own, with nothing in the hub's cache."""
    unreachable = mock.patch("huggingface_hub.get_hf_file_metadata", side_effect=OSError("Network is unreachable"))
    with mock.patch("huggingface_hub.constants.HF_HUB_CACHE", str(Path("hub").resolve())), unreachable:
        yield


def no_package():
    """An environment without the package of some weights."""
    return mock.patch("tailcloud.weights.resolve.find_spec", return_value=None)


def other_weights():
    """Somebody changed the file in the package."""
    text("efficientnet_lite0.pth", "other weights")()
    return mock.patch("tailcloud.weights.resolve.local_file", return_value="efficientnet_lite0.pth")


def no_timm():
    """A machine without the extra."""
    return mock.patch("tailcloud.backbones.timm_models.timm_is_installed", return_value=False)


def raw(path, content):
    """Write a file of bytes before the command."""

    def prepare():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)

    return prepare


def folder(path):
    """Make a folder before the command."""
    return lambda: Path(path).mkdir(parents=True)


def circle(path):
    """Make a link that leads to itself."""

    def prepare():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).symlink_to(Path(path).name)

    return prepare


def pipe(path):
    """Put a pipe in the place of a file: whoever reads it waits without an end."""

    def prepare():
        Path(path).unlink()
        os.mkfifo(path)

    return prepare


def cut(path):
    """Cut a file in half."""

    def prepare():
        content = Path(path).read_bytes()
        Path(path).write_bytes(content[: len(content) // 2])

    return prepare


def cut_photos():
    """A copy that was broken off."""
    photos()
    for path in Path("photos").rglob("*.png"):
        cut(path)()


def array_file():
    """What numpy.save writes."""
    np.save("x.npy", IMAGES)


def other_backbone():
    """The description of a deeper network."""
    content = json.loads(Path("run/model.json").read_text())
    content["architecture"]["backbone"] = "resnet20"
    Path("run/model.json").write_text(json.dumps(content))


def pytorch_weights():
    """Somebody saved the weights with torch.save."""
    import torch

    torch.save({"weight": torch.zeros(3)}, "run/model.safetensors")


def checkpoints_file():
    """A file where the folder of checkpoints was."""
    shutil.rmtree("run/checkpoint")
    Path("run/checkpoint").write_text("")


def prior(share):
    """A file with this share for each digit."""
    return text("p.csv", "".join(f"{digit},{share}\n" for digit in range(10)))


LONG_NAME = "a" * 300
IMAGES = np.zeros((4, 8, 8), np.uint8)
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"

SECTIONS = {
    "Choosing and changing a recipe": [
        Case("a recipe that does not exist", "train digits-lt/gcll"),
        Case("a recipe with a name of its own, misspelt", "train cifar100-lt/bst"),
        Case("data where a recipe belongs", "train digits-lt"),
        Case("data with a ratio where a recipe belongs", "train cifar100-lt:200"),
        Case("a recipe with a ratio that is none", "train cifar100-lt:high/gcl"),
        Case("a recipe with a ratio, and another ratio", "train cifar100-lt:200/gcl --data cifar100-lt:50"),
        Case("a recipe without data", "train mine.toml", text("mine.toml", "")),
        Case("a recipe file that does not exist", "train mine.toml"),
        Case("images in the place of a recipe", "train photos", text("photos/cat/1.jpg", "")),
        Case("a recipe that is not TOML", "train mine.toml", text("mine.toml", "data = digits-lt\n")),
        Case("a recipe of another format", "train mine.toml", text("mine.toml", 'format = 7\ndata = "digits-lt"\n')),
        Case("a misspelt field", "train --set stage1.epcohs=3"),
        Case("a misspelt table", "train --set satge2.epochs=3"),
        Case(
            "a change that needs held-out images, and none are", "train --set stage3.head_transform=tuned-logit-adjust"
        ),
        Case("a value of the wrong type", "train --set stage1.epochs=many"),
        Case("a table where a value belongs", "train --set stage1=5"),
        Case("a value out of range", "train --set stage1.epochs=-3"),
        Case("a learning rate that is not a number", "train --set stage1.lr=nan"),
        Case("a choice that does not exist", "train --set stage2.train=classifier"),
        Case("a setting without a value", "train --set stage1.epochs"),
        Case("a method that does not exist", "train --set method=gcl-papre"),
        Case("a loss that does not exist", "train --set stage1.loss=gcx"),
        Case("an option that a loss does not have", "train --set stage1.loss.nois=0.5"),
        Case("an impossible option of a loss", "train --set stage1.loss.noise=-0.5"),
        Case("an impossible option of a sampler", "train --set stage2.sampler=en --set stage2.sampler.beta=1.5"),
        Case("a backbone that does not exist", "train --set model.backbone=resnet33"),
        Case("GCL on a head without cosines", "train --set model.head=linear"),
        Case("cross-entropy on bare cosines", "train --set stage1.loss=ce"),
        Case("a second stage for a method that has none", "train --set method=ce"),
        Case("a recipe copied onto a file", "recipes copy digits-lt/gcl mine.toml", text("mine.toml", "")),
    ],
    "Naming data": [
        Case("a data set that does not exist", "train --data digits"),
        Case("a folder that does not exist", "inspect photos"),
        Case("no imbalance ratio", "train --data cifar10-lt"),
        Case("an imbalance ratio that is not a number", "inspect cifar10-lt:high"),
        Case("an imbalance ratio below 1", "inspect digits-lt:0.5"),
        Case("an imbalance ratio that would empty a class", "inspect digits-lt:1000"),
        Case("an imbalance ratio where there is none to choose", "inspect imagenet-lt:100"),
        Case("a large benchmark without its lists", "train --data imagenet-lt"),
        Case("a large benchmark without its images", "train --data inat2018", inat("7291")),
        Case("a list with a label that no class has", "inspect inat2018", inat("8142")),
        Case("a list that leads out of the data folder", "inspect inat2018", inat("1", path="../../passwd")),
    ],
    "Reading images of your own": [
        Case("a path where nothing is", "inspect ./photos"),
        Case("a folder without images", "inspect photos", text("photos/cat/notes.txt", "")),
        Case("images without class folders", "inspect photos", images("photos/1.png", "photos/2.png")),
        Case("an archive as data", "inspect photos.zip", text("photos.zip", "")),
        Case("images that cannot be read", "inspect photos", text("photos/cat/1.jpg", "")),
        Case(
            "images that cannot be read, looked for",
            "data verify photos",
            text("photos/cat/1.jpg", ""),
            leaves=("photos-broken.csv",),
        ),
        Case("a report in place of another file", "data verify ./photos --report mine.csv", text("mine.csv", "a,b")),
        Case("arrays that should be streamed", "train --data x.npz --set data.loader=stream", text("x.npz", "")),
        Case(
            "a class that is only tested",
            f"train own/ce {PHOTOS}",
            images("photos/train/cat/1.png", "photos/test/cat/2.png", "photos/test/yak/3.png"),
        ),
        Case(
            "a class of another spelling in the test folder",
            f"train own/ce {PHOTOS}",
            images("photos/train/hat/1.png", "photos/train/cap/1.png", "photos/test/Hat/2.png"),
        ),
        Case("too few images to part", f"train own/ce {PHOTOS}", images("photos/cat/1.png", "photos/dog/1.png")),
        Case("images that do not fit into memory", f"train own/ce {PHOTOS} --set data.loader=resident", no_memory),
        Case("a page in place of another file", "inspect --html mine.html", text("mine.html", "<p>mine</p>")),
        Case("a page that is no page", "inspect --html mine.txt"),
        Case("a cache where a file is", f"train own/ce {PHOTOS} {STREAMED} --set data.cache=photos/cat/0.png", photos),
        Case("two ways to crop", "train --set augment.crop_area=[0.1,1.0]"),
        Case("a range from above", "train --set augment.crop_area=[1.0,0.1]"),
        Case("a misspelt setting of data", "inspect --set data.sise=96"),
        Case("a threshold that leaves no class", f"train own/ce {PHOTOS} --set data.min_count=99", photos),
        Case("a pattern without a group", f"train own/ce {PHOTOS} --set data.group=cat", photos),
        Case("a pattern that is none", f"train own/ce {PHOTOS} --set data.group=(cat", photos),
        Case("a pattern that no file name matches", f"train own/ce {PHOTOS} --set data.group=(camera)", photos),
        Case("a setting for images of one's own", "train --set data.size=16"),
        Case("a list without its columns", "inspect list.csv", text("list.csv", "name,kind\n1.jpg,cat\n")),
        Case("a list of other labels", "inspect list.csv", text("list.csv", "path,species\n1.jpg,cat\n")),
        Case("a setting of a value that is no number", f"train {PHOTOS} --set data.size=abc", photos),
        Case("the whole file system as images", "inspect --no-plan /"),
        Case("nothing after a switch", "inspect --no-plan ''"),
        Case("a list with a line cut short", "inspect list.csv", text("list.csv", "path,label\n1.jpg\n")),
        Case(
            "a list with an unknown part", "inspect list.csv", text("list.csv", "path,label,split\n1.jpg,cat,holdout\n")
        ),
        Case("a list with two labels for an image", "inspect list.csv", text("list.csv", "path,label\na,0\na,1\n")),
        Case("a list without labels", "inspect list.txt", text("list.txt", "photos/1.jpg\n")),
        Case("arrays under other names", "inspect data.npz", arrays(pixels=np.zeros((4, 8, 8), np.uint8))),
        Case(
            "labels in one-hot rows",
            "inspect data.npz",
            arrays(x=np.zeros((4, 8, 8), np.uint8), y=np.eye(4, dtype=int)),
        ),
        Case(
            "arrays that want to run a program",
            "inspect data.npz",
            arrays(x=np.zeros((4, 8, 8), np.uint8), y=np.array([Evil()] * 4, object)),
        ),
        Case("arrays cut short", "inspect data.npz", text("data.npz", "PK")),
    ],
    "CIFAR and downloads": [
        Case("data that is not there", "train cifar10-lt/gcl --root nowhere"),
        Case("a data folder with a file missing", "inspect cifar10-lt:100", cifar(batches=3)),
        Case("a truncated data file", "inspect cifar10-lt:100", cifar(cut=100)),
        Case("a label that no class has", "inspect cifar10-lt:100", cifar(label=12)),
        Case("a class with a gap in its labels", "inspect cifar10-lt:100", cifar(label=3)),
        Case("a data file that wants to run a program", "inspect cifar10-lt:100", cifar(evil=True)),
        Case("data that differs from what was published", "data verify cifar10-lt:100", cifar()),
        Case("a download that does not exist", "data get cifar1000"),
        Case("a download without a network", "data get cifar10", no_network, leaves=("data",)),
    ],
    "Time budgets and pretrained weights": [
        Case("a time budget without a unit", "train --time-budget 10"),
        Case("a time budget for a recipe", "train digits-lt/gcl --time-budget 10m"),
        Case("weights that are not there", "train --set model.weights=resnet8.safetensors"),
        Case(
            "weights that want to run a program",
            "train --set model.weights=resnet8.pth",
            text("resnet8.pth", "cos\nsystem\n(S'touch hacked'\ntR."),
        ),
        Case("weights of a backbone that has none", "train --weights pretrained"),
        Case("weights of another name", "train --set model.backbone=efficientnet_lite0 --weights imagenet22k"),
        Case("weights of a backbone that does not exist", "weights get resnet51"),
        Case(
            "weights that are not here, without a network",
            "train --set model.backbone=resnet50 --weights pretrained",
            no_hub,
        ),
        Case("a download of weights without a network", "weights get resnet50", no_hub),
        Case(
            "weights whose package is not installed",
            "train --set model.backbone=efficientnet_lite2 --weights pretrained",
            no_package,
        ),
        Case(
            "weights in a package that were changed",
            "train --set model.backbone=efficientnet_lite0 --weights pretrained",
            other_weights,
        ),
        Case(
            "a weights file with another SHA-256",
            "train --set model.backbone=resnet18 --weights resnet18.pth --set model.weights_sha256=0123abcd",
            text("resnet18.pth", "other weights"),
        ),
        Case(
            "a narrower network of fixed width", "train --set model.backbone=efficientnet_lite0 --set model.width=0.5"
        ),
        Case(
            "two branches of a network that has none",
            "train digits-lt/ce --set method=bbn --set model.backbone=efficientnet_lite0",
        ),
        Case("experts of a network that has none", "train --set model.experts=3 --set model.backbone=resnet18"),
        Case("more experts than taus", "train digits-lt/ce --set model.experts=4 --set stage1.objective=experts"),
        Case("a teacher that does not exist", "train --teacher runs/nowhere"),
        Case("a teacher twice", "train --teacher run --teacher run --out student", trained()),
        Case("a teacher of a network with two branches", "train digits-lt/bbn --teacher runs/nowhere"),
        Case("adapters in a convolution network", "train --set model.adapter=lora"),
        Case("adapters trained that are not there", "train --set stage1.train=adapters+head"),
        Case("features of a network that is trained", "train --set stage1.views=4"),
        Case("images mixed where features are", "train --set stage2.views=4 --set stage2.cutmix=1.0"),
        Case("a sampler of patches without CutMix", "train --set stage1.cutmix_sampler=cb"),
        Case("patches of another sampler beside mixup", "train --set stage1.cutmix=1.0 --set stage1.cutmix_sampler=cb"),
        Case(
            "mixup that no batch is left for",
            "train --set stage1.cutmix=1.0 --set stage1.cutmix_probability=1.0",
        ),
        Case(
            "Nesterov momentum without momentum",
            "train --set stage1.optimizer.name=sgd --set stage1.optimizer.nesterov=true --set stage1.momentum=0.0",
        ),
        Case("an augmentation of views that nothing compares", "train --set view_augment.flip=true"),
        Case("a backbone of a library that is not installed", "train --set model.backbone=timm:resnet18", no_timm),
    ],
    "Where a run is written": [
        Case("a run folder that holds a run", "train --out run", trained()),
        Case("a folder that holds other things", "train --out thesis", text("thesis/chapter1.tex", "")),
        Case("a file where the run folder should be", "train --out notes.txt", text("notes.txt", "")),
        Case("a run folder in use", f"train --out run {SMALL}", held),
        Case(
            "a disk that is full", f"train --out run {SMALL}", failing_disk(errno.ENOSPC), leaves=("run", "run/.lock")
        ),
        Case(
            "a disk that is read-only",
            f"train --out run {SMALL}",
            failing_disk(errno.EROFS),
            leaves=("run", "run/.lock"),
        ),
    ],
    "Seeds, devices and precision": [
        Case("a negative seed", "train --seed -1"),
        Case("a seed that is no number", "train --seed a"),
        Case("a batch beyond all bounds", "train --set stage1.batch=100000000000000000000"),
        Case("a seed given twice", "train --seed 1 --seed 1"),
        Case("no GPU", "train --device cuda"),
        Case("a device that does not exist", "train --device gpu"),
        Case("half precision without a GPU", "train --set engine.precision=bfloat16"),
        Case("CUDA graphs without a GPU", "train --set engine.executor=graphed"),
        Case("an executor that does not exist", "train --set engine.executor=jit"),
        Case("fused kernels without a GPU", "train --set engine.kernels=fused"),
        Case("kernels that do not exist", "train --set engine.kernels=cudnn"),
        Case("a batch in pieces for a loss of whole batches", "train digits-lt/lade --set engine.accumulate=2"),
        Case(
            "a batch in pieces for a loss that does not say whether it is a mean",
            "train digits-lt/ce --plugin my_loss.py --set stage1.loss=mine --set engine.accumulate=2",
            plugin(UNDECLARED),
        ),
        Case("no piece at all", "train --set engine.accumulate=0"),
    ],
    "While it trains, and going on": [
        Case(
            "a loss that diverges",
            f"train --out run {SMALL} --set stage1.lr=1e20",
            leaves=("run", "run/.lock", "run/recipe.toml", "run/log.jsonl"),
        ),
        Case("a run named without --out", "train --resume run", trained(finished=False)),
        Case("several runs inside a run", f"train --seed 1 --seed 2 --out run {SMALL}", trained()),
        Case("nothing to resume", "train --resume --out run"),
        Case("no run anywhere to resume", "train --resume"),
        Case(
            "a resumed run with another recipe",
            "train --resume --out run --set stage1.epochs=5",
            trained(finished=False),
        ),
        Case("a resumed run on other data", "train --resume --out run", trained(finished=False, then=other_data)),
        Case("a recipe edited under way", "train --resume --out run", trained(finished=False, then=other_recipe)),
        Case("checkpoints that are cut short", "train --resume --out run", checkpoints(truncate)),
        Case("a checkpoint that is somebody else's", "train --resume --out run", checkpoints(foreign_tensors)),
        Case("a checkpoint of another format", "train --resume --out run", checkpoints(other_format)),
        Case("a checkpoint of another model", "train --resume --out run", checkpoints(other_model)),
    ],
    "Measuring a model": [
        Case("a run folder that does not exist", "evaluate somewhere"),
        Case("a folder of runs in the place of a run", "evaluate .", trained()),
        Case(
            "an unfinished run measured",
            "evaluate run",
            trained(finished=False, then=lambda: Path("run/model.json").unlink()),
        ),
        Case("a model measured on other classes", "evaluate run --data cifar10", trained(then=cifar())),
        Case("a truncated model", "evaluate run", trained(then=lambda: truncate(Path("run/model.safetensors")))),
        Case("a model of another format", "evaluate run", trained(then=edited("run/model.json", format=7))),
        Case("a model that makes no sense", "evaluate run", trained(then=edited("run/model.json", counts=[1]))),
    ],
    "Predicting, and other mixes of classes": [
        Case("predictions without a run", "predict somewhere photos"),
        Case("images in the place of a run", "predict photos run", trained(then=text("photos/cat/1.jpg", ""))),
        Case("a picture that is not there", "predict run photo.jpg", trained()),
        Case("a pattern that matches nothing", "predict run photos/*.jpg", trained()),
        Case("a folder without pictures", "predict run photos", trained(then=text("photos/list.txt", ""))),
        Case("a picture that is none", "predict run photos --csv", trained(then=text("photos/1.jpg", "no"))),
        Case("predictions onto another file", "predict run . --out run/model.json", trained(then=text("1.jpg", ""))),
        Case("predictions of two kinds", "predict run . --csv --json", trained(then=text("1.jpg", ""))),
        Case("a threshold that is no probability", "predict run . --threshold 60", trained()),
        Case("a prior that does not exist", "evaluate run --prior balanced", trained()),
        Case(
            "a prior of other classes",
            "evaluate run --prior p.csv",
            trained(then=text("p.csv", "class,share\ncat,1\n")),
        ),
        Case("a prior that lacks classes", "evaluate run --prior p.csv", trained(then=text("p.csv", "0,0.5\n1,0.5\n"))),
    ],
    "Reports, embeddings and watching": [
        Case("a report on a run that is not finished", "report run", trained(finished=False)),
        Case(
            "a finished run with a damaged result",
            "train --resume --out run",
            trained(then=text("run/result.json", '{"format": 1}')),
        ),
        Case("a report on a damaged result", "report run", trained(then=text("run/result.json", '{"format": 1, "top'))),
        Case("a report on a result of another format", "report run", trained(then=edited("run/result.json", format=7))),
        Case("a report onto another file", "report run --out run/model.json", trained()),
        Case("a comparison without a place", "report run run", trained()),
        Case("a table onto another one", "report run --out mine.csv", trained(then=text("mine.csv", "method,top1\n"))),
        Case("a report with damaged images", "report run", trained(then=text("run/examples.safetensors", "no images"))),
        Case("a run watched before it is started", "watch run"),
        Case("a folder watched that holds no run", "watch thesis", text("thesis/chapter1.tex", "")),
        Case("a run watched that was stopped", "watch run", trained(finished=False, then=three_hours_ago)),
        Case("no TensorBoard", f"train --out run --set logging.tensorboard=true {SMALL}", no_tensorboard),
        Case("embeddings of a run that is not finished", "report --embedding run", trained(finished=False)),
        Case("embeddings on different images", "report --embedding run other --out e.html", trained(then=another_run)),
        Case("embeddings as a table", "report --embedding run --out e.csv", trained()),
        Case("a data folder for a report without images", "report run --root data", trained()),
    ],
    "Tables of the paper, and re-balancing": [
        Case("a table that does not exist", "bench table9"),
        Case("a row that a table does not have", "bench cloud-size --only bbn"),
        Case("a file of a table that does not exist", "bench mine.toml"),
        Case("a ratio that a table does not have", "bench sampling --only cifar10-lt:10"),
        Case("a table on data without recipes", "bench table1 --data ."),
        Case("a bench shortened to nothing", "bench table1 --epochs 0"),
        Case("a bench on a cluster of another kind", "bench table1 --on slurm"),
        Case("a cluster without a port", "bench table1 --on ray=10.0.0.1"),
        Case("more of a GPU than there is", "bench table1 --on ray --gpus-per-run 2"),
        Case("a share of a GPU without a cluster", "bench table1 --gpus-per-run 0.5"),
        Case("a bench with another method in every row", "bench table1 --set method=ce"),
        Case("a way to re-balance that does not exist", "rebalance run --with crx", trained()),
        Case("a run re-balanced before it is finished", "rebalance run --with crt", trained(finished=False)),
        Case("a re-balanced run onto another one", "rebalance run --with crt --out run", trained()),
        Case(
            "a first stage re-balanced with another recipe", "rebalance run --with crt --set stage1.lr=0.5", trained()
        ),
        Case("a run re-balanced without its checkpoints", "rebalance run --with crt", trained(then=no_checkpoints)),
    ],
    "Averages of runs": [
        Case("an average of one run", "average run --out mean", trained()),
        Case("an average of a run with itself", "average run run --out mean", trained()),
        Case("an average of a run and a copy", "average run other --out mean", trained(then=a_copy)),
        Case("an average with a run that does not exist", "average run nowhere --out mean", trained()),
        Case("an average of a run that is not finished", "average run other --out mean", trained(then=unfinished_copy)),
        Case("an average of different networks", "average run other --out mean", trained(then=a_wider_run)),
        Case("an average onto one of its runs", "average run other --out run", trained(then=a_copy)),
        Case("an average trained as a network", f"train --out run --set model.backbone=resnet8-3-networks {SMALL}"),
    ],
    "Exports": [
        Case("an export format that does not exist", "export run --to tflite", trained()),
        Case("an export from a folder without a model", "export nothing --to onnx"),
        Case("an export without a package that it needs", "export run --to onnx", trained(then=lacking("onnxscript"))),
        Case(
            "an export over a file that is there",
            "export run --to pt2 --out notes.txt",
            trained(then=text("notes.txt", "")),
        ),
        Case(
            "an export over the run itself",
            "export run --to safetensors --out run/model.safetensors --force",
            trained(),
        ),
        Case("an export to a folder", "export run --to pt2 --out run", trained()),
        Case("a model card of a run that is not finished", "export run --to card", trained(finished=False)),
    ],
    "Plugins": [
        Case("a plugin that is not there", "train --plugin my_loss.py"),
        Case(
            "a plugin with a mistake", "train --plugin my_loss.py", text("my_loss.py", "import torch\n\ntorch.nom()\n")
        ),
        Case("a plugin that is not Python", "train --plugin my_loss.py", text("my_loss.py", "class Mine(Loss)\n")),
        Case(
            "a name that is taken",
            "train --plugin my_loss.py",
            text("my_loss.py", PLUGIN.replace('"mine"', '"gcl"')),
        ),
        Case(
            "an objective that no seed repeats",
            "train --plugin my_objective.py",
            text("my_objective.py", UNREPEATABLE),
        ),
        Case(
            "an optimiser that a GPU would capture wrongly",
            "train --plugin my_optimizer.py",
            text("my_optimizer.py", CAPTURED),
        ),
        Case("a head transform for another head", "train --plugin my_transform.py", text("my_transform.py", UNCHECKED)),
        Case("a run with parts from a plugin", "evaluate run", trained_with_a_plugin),
    ],
    "The command line": [
        Case("a command that does not exist", "tran"),
        Case("an option that does not exist", "train --epochs 3"),
    ],
    "Recipes and settings, as people write them": [
        Case(
            "a recipe with a key twice",
            "train mine.toml",
            text("mine.toml", 'data = "digits-lt"\nseed = 1\nseed = 2\n'),
        ),
        Case("a recipe nested without an end", "train mine.toml", text("mine.toml", "data = " + "[" * 5000)),
        Case("a recipe saved as UTF-16", "train mine.toml", raw("mine.toml", 'data = "digits-lt"\n'.encode("utf-16"))),
        Case("a picture renamed to a recipe", "train mine.toml", raw("mine.toml", PNG)),
        Case("a recipe in JSON", "train mine.toml", text("mine.toml", '{"data": "digits-lt"}')),
        Case("a recipe in YAML", "train mine.yaml", text("mine.yaml", "data: digits-lt\n")),
        Case("a folder named as a recipe", "train mine.toml", folder("mine.toml")),
        Case("a stage that is a word", "train mine.toml", text("mine.toml", 'data = "digits-lt"\nstage1 = "fast"\n')),
        Case("data that are a number", "train mine.toml", text("mine.toml", "data = 5\n")),
        Case("a seed in quotes", "train mine.toml", text("mine.toml", 'data = "digits-lt"\nseed = "zero"\n')),
        Case(
            "a field of a newer version", "train mine.toml", text("mine.toml", 'data = "digits-lt"\nbrain = "large"\n')
        ),
        Case("a setting without a key", "train --set =5"),
        Case("a setting with an empty part", "train --set stage1..epochs=3"),
        Case("a setting without anything behind it", "train --set stage1.epochs="),
        Case("a fourth stage", "train --set stage4.epochs=1"),
        Case("epochs as a decimal number", "train --set stage1.epochs=1.5"),
        Case("an infinite learning rate", "train --set stage1.lr=1e400"),
        Case("a negative learning rate", "train --set stage1.lr=-0.1"),
        Case("a batch of nothing", "train --set stage1.batch=0"),
        Case("milestones that are a word", "train --set stage1.milestones=late"),
        Case("mixup below zero", "train --set stage1.mixup=-1"),
        Case("a network without width", "train --set model.width=0"),
        Case("all images held out", "train --set selection.split=1"),
        Case("more images held out than there are", "train --set selection.split=2"),
        Case("a selection that does not exist", "train --set selection.pick=worst"),
        Case("less than no threads", "train --set engine.threads=-1"),
        Case("less than no workers", "train --set engine.workers=-2"),
        Case("a loader that does not exist", "train --set data.loader=disk"),
        Case("a path in the place of a recipe and data", "train digits-lt/gcl extra"),
    ],
    "Folders, as people have them": [
        Case("data without a name", "train --data '' --out run"),
        Case("an empty folder", "inspect .", folder("photos")),
        Case("a web address", "train --data https://example.com/photos.zip --out run"),
        Case("a bucket", "inspect s3://bucket/photos"),
        Case("a folder with a sign in its name that is not there", "inspect ./📷"),
        Case("a name of 300 letters", f"inspect ./{LONG_NAME}"),
        Case("a run folder with a name of 300 letters", f"train {SMALL} --out {LONG_NAME}"),
        Case("documents in class folders", "inspect photos", raw("photos/cat/scan.pdf", b"%PDF-1.7\n")),
        Case("a document renamed to a photograph", "inspect photos", raw("photos/cat/scan.jpg", b"%PDF-1.7\n")),
        Case("photographs of a telephone", "inspect photos", raw("photos/cat/IMG_1.heic", b"\0\0\0\x18ftypheic")),
        Case("photographs cut short", "inspect photos", cut_photos),
        Case("a web page saved as a photograph", "inspect photos", text("photos/cat/1.jpg", "<!DOCTYPE html>")),
        Case("a link that leads back to itself", "inspect photos", circle("photos")),
        Case("a class folder that leads back to itself", "inspect photos", circle("photos/cat")),
        Case("a photograph in the place of a folder", "inspect 1.png", images("1.png")),
        Case("a video", "inspect birds.mp4", raw("birds.mp4", b"\0\0\0\x20ftypisom")),
        Case("a size of nothing", f"train own/ce {PHOTOS} --set data.size=0", photos),
        Case("a size beyond all bounds", f"train own/ce {PHOTOS} --set data.size=1000000", photos),
        Case("a way to fit that does not exist", f"train own/ce {PHOTOS} --set data.fit=stretch", photos),
        Case("a share for testing above one", f"train own/ce {PHOTOS} --set data.test=1.5", photos),
        Case("two folders of data", "inspect photos others", photos),
        Case("broken photographs, reported into a folder", "data verify photos --report photos", photos),
    ],
    "Lists, as spreadsheets save them": [
        Case("an empty list", "inspect list.csv", text("list.csv", "")),
        Case("a list of a header only", "inspect list.csv", text("list.csv", "path,label\n")),
        Case("a spreadsheet renamed to a list", "inspect list.csv", raw("list.csv", b"PK\x03\x04\x14\0\x06\0\xff\xfe")),
        Case("a spreadsheet", "inspect list.xlsx", raw("list.xlsx", b"PK\x03\x04")),
        Case(
            "a list saved as UTF-16",
            "inspect list.csv",
            raw("list.csv", "path,label\r\n1.jpg,cat\r\n".encode("utf-16")),
        ),
        Case(
            "a list in the code page of Windows",
            "inspect list.csv",
            raw("list.csv", "path,label\r\n1.jpg,Käfer\r\n".encode("cp1252")),
        ),
        Case(
            "a list with a mark at its start and other columns",
            "inspect list.csv",
            raw("list.csv", "\ufeffname;kind\r\n1.jpg;cat\r\n".encode()),
        ),
        Case(
            "semicolons in a list with a comma in its header",
            "inspect list.csv",
            text("list.csv", "path,label;x\n1.jpg;cat\n"),
        ),
        Case("a list with tabs that is called .csv", "inspect list.csv", text("list.csv", "path\tlabel\n1.jpg\tcat\n")),
        Case(
            "a list with a quote that is never closed",
            "inspect list.csv",
            text("list.csv", 'path,label\n"1.jpg,cat\n' + "x" * 200_000),
        ),
        Case("a list without a label in a line", "inspect list.csv", text("list.csv", "path,label\n1.jpg,\n")),
        Case("a list without a path in a line", "inspect list.csv", text("list.csv", "path,label\n,cat\n")),
        Case(
            "a list of images that are elsewhere", "inspect list.csv", text("list.csv", "path,label\nC:\\1.jpg,cat\n")
        ),
        Case("a list of folders", "inspect list.csv", text("list.csv", "path,label\n.,cat\n")),
        Case("a list with old line ends", "inspect list.csv", raw("list.csv", b"path,label\r1.jpg\r")),
        Case("a list in JSON", "inspect list.json", text("list.json", '[{"path": "1.jpg", "label": "cat"}]')),
        Case("a list that is a folder", "inspect list.csv", folder("list.csv")),
    ],
    "Arrays, as notebooks save them": [
        Case("a single array", "inspect x.npy", array_file),
        Case("an archive without arrays", "inspect data.npz", arrays()),
        Case("images without labels", "inspect data.npz", arrays(x_train=IMAGES)),
        Case("labels that are decimal numbers", "inspect data.npz", arrays(x=IMAGES, y=np.arange(4.0))),
        Case("fewer labels than images", f"train own/ce {ARRAYS}", arrays(x=IMAGES, y=np.arange(3))),
        Case("images that are flat", f"train own/ce {ARRAYS}", arrays(x=IMAGES.reshape(4, -1), y=np.arange(4))),
        Case(
            "images with two channels",
            f"train own/ce {ARRAYS}",
            arrays(x=np.zeros((4, 8, 8, 2), np.uint8), y=np.arange(4)),
        ),
        Case(
            "images with their channels first",
            f"train own/ce {ARRAYS}",
            arrays(x=np.zeros((4, 3, 8, 8), np.uint8), y=np.arange(4)),
        ),
        Case("no images", "inspect data.npz", arrays(x=IMAGES[:0], y=np.arange(0))),
        Case("images of large integers", f"train own/ce {ARRAYS}", arrays(x=IMAGES.astype(np.int64), y=np.arange(4))),
        Case("floats up to 255", f"train own/ce {ARRAYS}", arrays(x=np.full((40, 8, 8), 255.0), y=np.arange(40) % 2)),
        Case(
            "floats that are not numbers",
            f"train own/ce {ARRAYS}",
            arrays(x=np.full((40, 8, 8), np.nan), y=np.arange(40) % 2),
        ),
        Case("images that are complex numbers", f"train own/ce {ARRAYS}", arrays(x=IMAGES * 1j, y=np.arange(4))),
        Case(
            "images that are Python objects",
            f"train own/ce {ARRAYS}",
            arrays(x=np.array([[1], [1, 2]], object), y=np.arange(2)),
        ),
        Case(
            "grey images for training and color ones for testing",
            f"train own/ce {ARRAYS}",
            arrays(x_train=IMAGES, y_train=np.arange(4), x_test=np.zeros((4, 8, 8, 3), np.uint8), y_test=np.arange(4)),
        ),
        Case("a pickle renamed to arrays", "inspect data.npz", raw("data.npz", pickle.dumps([1, 2]))),
        Case("arrays that were compressed twice", "inspect data.npz.gz", raw("data.npz.gz", b"\x1f\x8b")),
    ],
    "Times, seeds, devices and numbers": [
        Case("a time budget in words", "train --data digits-lt --time-budget '10 minutes'"),
        Case("a negative time budget", "train --data digits-lt --time-budget=-5m"),
        Case("no time", "train --data digits-lt --time-budget 0s"),
        Case("a time budget that is not a number", "train --data digits-lt --time-budget nanm"),
        Case("an infinite time budget", "train --data digits-lt --time-budget infh"),
        Case("an empty time budget", "train --data digits-lt --time-budget ''"),
        Case("a time budget of two parts, one without a unit", "train --data digits-lt --time-budget 1h30"),
        Case("a seed with a decimal point", "train --seed 1.5"),
        Case("a seed beyond all bounds", "train --seed 99999999999999999999"),
        Case("seeds in a list", "train --seed 0,1,2"),
        Case("a range of seeds without an end", "train --seed 3-"),
        Case("a range of seeds that runs backwards", "train --seed 4-0"),
        Case("more seeds than anybody waits for", "train --seed 0-100000"),
        Case("a seed given twice, once in a range", "train --seed 0-2 --seed 1"),
        Case("a GPU of another machine", "train --device cuda:7"),
        Case("a device in capitals", "train --device CPU"),
        Case("a GPU of an Apple computer", "train --device mps"),
        Case("no device", "train --device ''"),
        Case("less than one prediction", "predict run . --top 0", trained()),
        Case("predictions in words", "predict run . --top three", trained()),
        Case("a threshold of two", "predict run . --threshold 2", trained()),
        Case("a threshold in percent", "predict run . --threshold 80%", trained()),
        Case("a threshold that is a word", "predict run . --threshold high", trained()),
        Case("a negative threshold", "predict run . --threshold -0.5", trained()),
        Case("a threshold that is not a number", "predict run . --threshold nan", trained(then=images("1.png"))),
        Case("a port beyond all ports", "review run --port 99999", trained()),
    ],
    "Run folders, as they come back from other machines": [
        Case("a run folder without a name", f"train {SMALL} --out ''"),
        Case("a run folder in a file", f"train {SMALL} --out notes.txt/run", text("notes.txt", "")),
        Case("a run folder that is a device", f"train {SMALL} --out /dev/null"),
        Case("a run folder that leads back to itself", f"train {SMALL} --out run", circle("run")),
        Case("a file in the place of a run", "evaluate notes.txt", text("notes.txt", "")),
        Case("a packed run", "predict run.zip photos", raw("run.zip", b"PK\x03\x04")),
        Case("a run without its recipe", "evaluate run", trained(then=delete("run/recipe.toml"))),
        Case("a result cut in half", "report run", trained(then=cut("run/result.json"))),
        Case("a result that is empty", "report run", trained(then=text("run/result.json", ""))),
        Case("a result that is a list", "report run", trained(then=text("run/result.json", "[1, 2]"))),
        Case("a result without its data", "report run", trained(then=edited("run/result.json", dataset={}))),
        Case("a result with words for numbers", "report run", trained(then=edited("run/result.json", top1="good"))),
        Case("a model description cut in half", "evaluate run", trained(then=cut("run/model.json"))),
        Case("a model description that is a list", "predict run .", trained(then=text("run/model.json", "[]"))),
        Case("a model description of another network", "evaluate run", trained(then=other_backbone)),
        Case(
            "a model description without class names",
            "evaluate run",
            trained(then=edited("run/model.json", class_names=[])),
        ),
        Case("weights that are empty", "evaluate run", trained(then=text("run/model.safetensors", ""))),
        Case(
            "weights of another network", "evaluate run", trained(then=lambda: foreign_tensors("run/model.safetensors"))
        ),
        Case("weights of PyTorch under the name of a run's", "predict run .", trained(then=pytorch_weights)),
        Case("a run without its weights", "export run --to pt2", trained(then=delete("run/model.safetensors"))),
        Case("checkpoints that are a file", "train --resume --out run", trained(finished=False, then=checkpoints_file)),
        Case("a checkpoint that is empty", "train --resume --out run", checkpoints(lambda path: path.write_bytes(b""))),
        Case(
            "a recipe of a run in another language",
            "train --resume --out run",
            trained(finished=False, then=raw("run/recipe.toml", b"\xff\xfe\0")),
        ),
        Case("a log that is a pipe", "train --resume --out run", trained(finished=False, then=pipe("run/log.jsonl"))),
    ],
    "Predictions, priors and exports": [
        Case("a text to predict", "predict run notes.txt --csv", trained(then=text("notes.txt", "hello"))),
        Case("a document to predict", "predict run scan.pdf --csv", trained(then=raw("scan.pdf", b"%PDF-1.7\n"))),
        Case("nothing to predict", "predict run", trained()),
        Case("links that are not sorted", "predict run . --link", trained(then=images("1.png"))),
        Case("a gallery that is no page", "predict run . --gallery g.txt", trained(then=images("1.png"))),
        Case(
            "images sorted into a folder that has some",
            "predict run 1.png --sort-into old",
            trained(then=images("1.png", "old/2.png")),
        ),
        Case("predictions into a folder", "predict run 1.png --out run", trained(then=images("1.png"))),
        Case("a prior that is a picture", "evaluate run --prior p.csv", trained(then=raw("p.csv", PNG))),
        Case("a prior with negative shares", "evaluate run --prior p.csv", trained(then=prior(-1))),
        Case("a prior that is not a number", "evaluate run --prior p.csv", trained(then=prior("nan"))),
        Case("a prior of nothing", "evaluate run --prior p.csv", trained(then=prior(0))),
        Case("a prior in words", "evaluate run --prior p.csv", trained(then=prior("many"))),
        Case("a prior with a class twice", "evaluate run --prior p.csv", trained(then=text("p.csv", "0,1\n0,2\n"))),
        Case("a prior that is a list", "evaluate run --prior p.json", trained(then=text("p.json", "[0.5, 0.5]"))),
        Case("a folder in the place of a prior", "evaluate run --prior run", trained()),
        Case("an export without a format", "export run", trained()),
        Case("an export format in capitals", "export run --to ONNX", trained()),
        Case("an export with its words swapped", "export onnx --to run", trained()),
        Case("a report without a run", "report"),
        Case("a report as another kind of file", "report run --out report.pdf", trained()),
        Case("a report with its words swapped", "report page.html run --out other.html", trained()),
        Case("a review of built-in data", "review run --csv s.csv", trained()),
        Case("a re-balanced run without a way", "rebalance run", trained()),
        Case("other images of other classes", "evaluate run --data photos", trained(then=photos)),
        Case("other images that are not there", "evaluate run --data photos", trained()),
        Case("a recipe shown that does not exist", "recipes show digits-lt/gxl"),
        Case("weights without a name", "weights get ''"),
        Case("a plugin that is a folder", "train --plugin plugins", folder("plugins")),
        Case("a plugin that is a picture", "train --plugin my.py", raw("my.py", PNG)),
        Case("a list verified that is not there", "data verify list.csv"),
        Case("a file watched", "watch notes.txt", text("notes.txt", "")),
        Case("a bench of less than nothing", "bench table1 --epochs -1"),
    ],
}
CASES = [case for section in SECTIONS.values() for case in section]


def command(words):
    """Run ``tailcloud WORDS`` in this process: its exit code and what it said on standard error."""
    from tailcloud.cli import main
    from tailcloud.launch.run_data import clear_data_cache

    clear_data_cache()  # a command is usually a process of its own
    said = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["tailcloud", *shlex.split(words)]),
        mock.patch.dict(os.environ, {"COLUMNS": "1000", "NO_COLOR": "1", "TERM": "dumb"}),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(said),
    ):
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0), said.getvalue()
    return 0, said.getvalue()


@dataclass(frozen=True)
class Ending:
    """How a command ended: its exit code, the one sentence, all that it said, and the files that it changed."""

    code: int
    sentence: str
    said: str
    changed: set[str]


def ending(case):
    """How a case ends, run in a folder of its own."""
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            with case.prepare() or contextlib.nullcontext():
                before = files_here()
                code, said = command(case.words)
                changed = {path for path, _ in before ^ files_here()}
        finally:
            os.chdir(home)
    return Ending(code, one_sentence(said).replace(str(Path(folder).resolve()), "…"), said, changed)


def files_here():
    """Every file and folder of the working folder, with what changes if it is written."""
    found = ((path, path.lstat()) for path in Path().rglob("*"))
    return {(str(path), 0 if path.is_dir() else (status.st_mtime_ns, status.st_size)) for path, status in found}


def one_sentence(said):
    """The error in what a command said."""
    lines = [line.strip(" │╭╮╰╯─") for line in said.splitlines() if not line.startswith(("note:", "Usage:", "Try "))]
    lines = [line for line in lines if line and line != "Error"]
    return " ".join(lines).removeprefix("error: ")


def row(case, end):
    def cell(value):
        return value.replace("|", "\\|").replace(LONG_NAME, "aaa…")

    words = " ".join(case.words.replace(SMALL, "").split())
    return f"| {case.what} | `tailcloud {cell(words)}` | {cell(end.sentence)} | {end.code} |"


HEAD = """# What tailcloud says when something is wrong

Every command ends in one sentence that names the thing, the value and the way out; the exit code is 2 for wrong use
and 1 for failure. Nothing is overwritten, and nothing half-written is left behind. Each row is a test; the page is
written by `python tests/helpers/bad_inputs.py`. [Troubleshooting](troubleshooting.md) has causes and cures.
"""
TABLE = """
## {}

| what is wrong | for example | what it says | exit code |
|---|---|---|---|
"""

if __name__ == "__main__":
    parts = [
        TABLE.format(task) + "".join(row(case, ending(case)) + "\n" for case in cases)
        for task, cases in SECTIONS.items()
    ]
    PAGE.write_text(HEAD + "".join(parts))
