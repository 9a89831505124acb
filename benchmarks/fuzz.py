"""Feed damaged files to everything that reads a foreign file: does anything but success or a sentence come out?

    python benchmarks/fuzz.py --minutes 15                              the record under benchmarks/results
    python benchmarks/fuzz.py --reader "images" --case 4711             one case again, with its traceback

Each reader has some valid files, and ``mutations.py`` damages them. A crash is any exception that is no
``TailcloudError``, the death of the process, or a case that takes more than ten seconds of the processor. A case is its
number: the same seed, reader and number are the same bytes. Each reader has a process of its own and the same share of
the time.
"""

import argparse
import io
import json
import lzma
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from measurement import RESULTS, write_record
from mutations import mutated
from PIL import Image, features

import tailcloud
from tailcloud.backbones import create_backbone
from tailcloud.calibration.prior_file import read_prior
from tailcloud.cli.run_status import LogTail, read_stages
from tailcloud.data.benchmarks.safe_pickle import load_pickle
from tailcloud.data.exif import read_capture
from tailcloud.data.image_io import read_header, read_image
from tailcloud.data.loaders.cache import open_cache
from tailcloud.data.read_options import ReadOptions
from tailcloud.data.readers.csv_list import other_columns, read_list
from tailcloud.data.readers.large_list import read_large_list
from tailcloud.data.readers.npz import open_npz, read_resized
from tailcloud.errors import TailcloudError
from tailcloud.estimator.persistence import read_saved
from tailcloud.recipe import load_recipe
from tailcloud.reporting.page import run_page
from tailcloud.reporting.run_record import read_run
from tailcloud.review.decisions import _decision, _entries
from tailcloud.runs.checkpoint import Checkpoint, load_latest_checkpoint, read_latest_state, save_checkpoint
from tailcloud.runs.examples_file import read_run_examples
from tailcloud.runs.folder import RunFolder
from tailcloud.serving.load import load
from tailcloud.training.features.feature_cache import FeatureCache, read_feature_file
from tailcloud.weights.load import load_pretrained
from tailcloud.weights.resolve import PretrainedWeights

SECONDS = 10.0  # of the processor that a case may take
WAITING = 300.0  # seconds that it may wait
MEMORY = 16 << 30  # bytes of addresses that a reader may have
SMALL = ("model.width=0.25", "stage1.epochs=1", "stage2.epochs=1", "engine.threads=1", "selection.split=0.1")
CLASSES = ["cat", "dog", "Käfer, groß"]
Read = Callable[[Path], object]


@dataclass(frozen=True)
class Reader:
    """Something that reads a file of this name. ``seeds`` are valid files."""

    file: str
    seeds: list[bytes]
    read: Read


def make_readers(home: Path) -> dict[str, Reader]:
    """All readers, in a folder with a trained run ``run``."""
    run = home / "run"
    tailcloud.train("digits-lt/gcl", settings=SMALL, out=run, device="cpu")
    stages = sorted((run / "checkpoint").glob("*.safetensors"))
    in_run = {
        "result": ("result.json", lambda path: run_page(read_run(path.parent))),
        "epoch log": ("log.jsonl", read_log),
        "recipe of a run": ("recipe.toml", read_recipe_of_run),
        "model description": ("model.json", lambda path: load(path.parent)),
        "weights of a run": ("model.safetensors", lambda path: load(path.parent)),
        "example images": ("examples.safetensors", lambda path: read_run_examples(path, 10)),
        "saved estimator": ("estimator.json", lambda path: read_saved(path.parent, load(path.parent))),
    }
    saved = {"parameters": {"epochs": 3, "settings": {}}, "kind": "int64", "classes": list(range(10))}
    (run / "estimator.json").write_text(json.dumps({"format": 1, **saved}))
    portable = home / "portable.safetensors"
    from tailcloud.serving.export import export_run

    export_run(run, "safetensors", portable)
    readers = {name: Reader(f"run/{file}", [(run / file).read_bytes()], read) for name, (file, read) in in_run.items()}
    return readers | {
        "checkpoint": Reader(
            "saved/stage2-0000001.safetensors", [path.read_bytes() for path in stages], read_saved_run
        ),
        "forged checkpoint": Reader("forged/state.json", [checkpoint_state(run)], resume_forged),
        "exported model": Reader("other.safetensors", [portable.read_bytes()], load),
        "recipe": Reader("mine.toml", [(run / "recipe.toml").read_bytes(), *map(str.encode, RECIPES)], read_recipe),
        "list, CSV": Reader("list.csv", list(map(str.encode, LISTS)), read_csv),
        "list, text": Reader("list.txt", [b"a.png 0\nb c.png 1\n./d.png 2\r\n" * 3], read_list),
        "large list": Reader("large.txt", [b"a.png 0\nb c.png 1\n./d.png 2\r\n" * 3], read_numbers),
        "large list, compressed": Reader("large.txt.xz", [lzma.compress(b"a.png 0\nb.png 1\n")], read_numbers),
        "arrays": Reader("data.npz", array_seeds(), read_arrays),
        "images": Reader("image.png", image_seeds(), read_picture),
        "weights of PyTorch": Reader("weights.pth", pytorch_seeds(), read_weights),
        "weights in safetensors": Reader("weights.safetensors", safetensors_seeds(), read_weights),
        "prior, CSV": Reader("prior.csv", ['cat,0.5\ndog,1\n"Käfer, groß",2\n'.encode()], read_shares),
        "prior, JSON": Reader("prior.json", [json.dumps(dict.fromkeys(CLASSES, 0.5)).encode()], read_shares),
        "CIFAR": Reader("data_batch_1", cifar_seeds(), load_pickle),
        "feature cache": Reader("features/KEY/a.safetensors", [feature_seed(home)], read_features),
        "image cache": Reader("cache/about.json", [cache_seed(home / "cache")], read_cache),
        "review": Reader("review.json", [REVIEW], read_review),
    }


# What the readers do with a file


def read_log(path: Path) -> None:
    """All that reads a log: a run that continues, the report, and ``tailcloud watch``."""
    RunFolder(path.parent).log()
    LogTail(path).update()
    read_run(path.parent)


def read_recipe_of_run(path: Path) -> None:
    """All that reads the recipe of a run."""
    folder = RunFolder(path.parent)
    folder.plugins()
    read_stages(path)
    read_run(path.parent)
    folder.recipe()


def read_saved_run(path: Path) -> None:
    """A checkpoint, as it is."""
    read_latest_state(path.parent)
    load_latest_checkpoint(path.parent)


def resume_forged(path: Path) -> None:
    """A run that continues from a checkpoint with this state, whose digest is right."""
    run = path.parent.parent / "run"
    try:
        state = json.loads(path.read_bytes())
    except (ValueError, RecursionError):  # which nobody can forge
        return
    folder = RunFolder(path.parent / "run")
    if not folder.exists:
        folder.path.mkdir(exist_ok=True)
        folder.recipe_file.write_bytes((run / "recipe.toml").read_bytes())
    last = sorted((run / "checkpoint").glob("stage1*.safetensors"))[-1]
    tensors = safetensors.torch.load_file(last)
    for old in folder.checkpoints.glob("*"):
        old.unlink()
    for file in (folder.result_file, folder.weights_file, folder.model_file):
        file.unlink(missing_ok=True)
    save_checkpoint(folder.checkpoints, "stage1", 1, Checkpoint(tensors, state))
    tailcloud.train(resume=True, out=folder.path, device="cpu")


def read_recipe(path: Path) -> None:
    """A recipe, resolved and checked."""
    load_recipe(str(path))


def read_csv(path: Path) -> None:
    """A list, its other columns, and its groups."""
    read_list(path)
    read_list(path, "patient")
    other_columns(path)


def read_numbers(path: Path) -> None:
    """A large list, and its classes."""
    read_large_list(path).assignment(str(path))


def read_arrays(path: Path) -> None:
    """A data set of arrays, and as images to evaluate."""
    open_npz(str(path), path, ReadOptions())
    read_resized(path, 8, "squash")


def read_picture(path: Path) -> None:
    """An image: its header, its EXIF block, and its pixels."""
    read_header(path)
    read_capture(path)
    read_image(path, 3, min_side=8)
    read_image(path, 1)


def read_weights(path: Path) -> None:
    """Weights, into a network."""
    load_pretrained(create_backbone("resnet8", width=0.25), PretrainedWeights(str(path), "", "file", ""), 3)


def read_shares(path: Path) -> None:
    """A prior."""
    read_prior(str(path), CLASSES, [3, 2, 1])


def read_features(path: Path) -> None:
    """A file of features, alone and by the cache that it is in."""
    read_feature_file(path)
    FeatureCache(path.parents[1], lambda _: None).load(path.parent.name, 4)


def read_cache(path: Path) -> None:
    """A cache of decoded images."""
    open_cache(path.parent, (2, 4, 4, 3))


def read_review(path: Path) -> None:
    """The decisions of a review."""
    for entry in _entries(path):
        _decision(path, entry)


# Valid files

RECIPES = (
    'format = 1\ndata = "digits-lt:20"\nmethod = "ce"\nseed = 3\n[stage1]\nepochs = 3\nlr = 0.1\nmilestones = [1, 2]\n',
    '[data]\nspec = "photos"\nsize = 32\n[model]\nbackbone = "resnet18"\n[stage1.loss]\nname = "gcl"\nnoise = 0.5\n',
)
LISTS = (
    'path,label,split,patient\na.png,cat,train,1\n"b, c.png",dog,val,2\nd.png,"Käfer ""x""",test,3\n',
    "file;class\na.png;cat\nb.png;dog\n",
    "\ufeffpath,label\r\na.png,0\r\nb.png,1\r\n",
    "a.png,cat\nb.png,dog\n",
)
REVIEW = json.dumps(
    {
        "format": 1,
        "decisions": [
            {"image": "a.png", "action": "relabel", "label": "dog", "other": None},
            {"image": "b.png", "action": "drop", "label": None, "other": "c.png"},
        ],
    }
).encode()


def checkpoint_state(run: Path) -> bytes:
    """The state in the checkpoint at the end of the first stage."""
    last = sorted((run / "checkpoint").glob("stage1*.safetensors"))[-1]
    with safetensors.safe_open(last, framework="pt") as file:
        return str(file.metadata()["state"]).encode()


def array_seeds() -> list[bytes]:
    """Archives as NumPy writes them."""
    generator = np.random.default_rng(0)
    images, labels = generator.integers(0, 256, (24, 6, 6, 3)).astype(np.uint8), np.arange(24) % 3
    files = []
    for write, arrays in (
        (np.savez, {"x": images, "y": labels}),
        (np.savez_compressed, {"x_train": images[:16] / 255, "y_train": labels[:16].astype(str)}),
        (np.savez, {"train_images": images[..., 0], "train_labels": labels[:, None]}),
    ):
        buffer = io.BytesIO()
        write(buffer, **arrays)
        files.append(buffer.getvalue())
    return files


def image_seeds() -> list[bytes]:
    """An image in each format that can be read."""
    pixels = np.random.default_rng(0).integers(0, 256, (12, 10, 3)).astype(np.uint8)
    picture = Image.fromarray(pixels)
    exif = Image.Exif()
    exif[0x0112], exif[0x0110], exif[0x0132] = 6, "camera", "2024:01:02 03:04:05"
    files = []
    kinds = [
        ("PNG", picture),
        ("JPEG", picture),
        ("BMP", picture),
        ("GIF", picture),
        ("TIFF", picture),
        ("PPM", picture),
    ]
    kinds += [("PNG", picture.convert("P")), ("PNG", Image.fromarray(pixels[..., 0].astype(np.uint16) * 257))]
    kinds += [("PNG", picture.convert("RGBA")), ("TIFF", Image.fromarray(pixels[..., 0].astype(np.float32)))]
    for feature, kind in (("webp", "WEBP"), ("jpg_2000", "JPEG2000"), ("avif", "AVIF")):
        kinds += [(kind, picture)] if features.check(feature) else []
    for kind, image in kinds:
        buffer = io.BytesIO()
        image.save(buffer, kind, **({"exif": exif} if kind in {"JPEG", "PNG", "WEBP"} else {}))
        files.append(buffer.getvalue())
    return files


def pytorch_seeds() -> list[bytes]:
    """Weights as PyTorch saves them, plain and under a key, in the new and in the old format."""
    weights = create_backbone("resnet8", width=0.25).state_dict()
    files = []
    for content, zipped in ((weights, True), ({"state_dict": weights, "epoch": 3}, True), (weights, False)):
        buffer = io.BytesIO()
        torch.save(content, buffer, _use_new_zipfile_serialization=zipped)
        files.append(buffer.getvalue())
    return files


def safetensors_seeds() -> list[bytes]:
    """The same weights as safetensors."""
    return [safetensors.torch.save(dict(create_backbone("resnet8", width=0.25).state_dict()), {"format": "pt"})]


def cifar_seeds() -> list[bytes]:
    """A few images of CIFAR, as Python 2 and Python 3 pickle them."""
    content = {"data": np.zeros((4, 12), np.uint8), "labels": [0, 1, 2, 3], "batch_label": "1 of 5"}
    return [pickle.dumps(content, protocol) for protocol in (0, 2, 4)]


def feature_seed(home: Path) -> bytes:
    """A file of features."""
    FeatureCache(home / "valid", print).store("KEY", [bytes(range(16))] * 3, np.ones((3, 4), np.float16))
    return next((home / "valid" / "KEY").iterdir()).read_bytes()


def cache_seed(folder: Path) -> bytes:
    """A cache of two images; its description."""
    from zlib import crc32

    folder.mkdir()
    (folder / "images.u8").write_bytes(bytes(2 * 4 * 4 * 3))
    aspects = np.ones(2, np.float32)
    (folder / "aspects.f32").write_bytes(aspects.tobytes())
    (folder / "checksums.u32").write_bytes(bytes(8))
    about = {"format": 1, "process": 1, "aspects": crc32(aspects.tobytes()), "broken": {"1": "it is truncated"}}
    return json.dumps(about).encode()


# Cases


class TooSlow(BaseException):
    """A case takes too long. No reader catches it."""


def case_bytes(reader: Reader, name: str, number: int, seed: int) -> bytes:
    """The file of a case."""
    start = int.from_bytes(sha256(f"{seed} {name} {number}".encode()).digest()[:8], "big")
    return mutated(reader.seeds, Random(start))


def run_case(home: Path, reader: Reader, content: bytes) -> str | None:
    """Feed a file to a reader; None if it is read or refused with a sentence, else how it crashed."""
    path = home / reader.file
    path.parent.mkdir(parents=True, exist_ok=True)
    valid = path.read_bytes() if path.exists() else None
    path.write_bytes(content)
    try:
        with time_limit():
            reader.read(path)
    except TailcloudError:
        return None
    except (Exception, TooSlow) as error:
        return f"{type(error).__name__} at {_place(error)}"
    finally:
        path.unlink(missing_ok=True) if valid is None else path.write_bytes(valid)
    return None


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise ``TooSlow`` after a while: after some seconds of the processor, or, for what only waits, some minutes."""

    def stop(*_: object) -> None:
        raise TooSlow

    limits = {signal.ITIMER_PROF: (signal.SIGPROF, SECONDS), signal.ITIMER_REAL: (signal.SIGALRM, WAITING)}
    before = {number: signal.signal(number, stop) for number, _ in limits.values()}
    for timer, (_, seconds) in limits.items():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for timer in limits:
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _place(error: BaseException) -> str:
    """The last line of tailcloud's in a traceback."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/tailcloud/" in frame.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"


def fuzz(home: Path, name: str, reader: Reader, seed: int, seconds: float, first: int = 0) -> dict[str, Any]:
    """Cases of one reader for so many seconds, in a process of its own; a case that kills it is a crash."""
    progress = home / "progress"
    ends, done = time.monotonic() + seconds, first
    crashes: dict[str, int] = {}
    while time.monotonic() < ends:
        progress.write_text(json.dumps({"next": done, "crashes": crashes}))
        child = os.fork()
        if not child:
            _cases(home, name, reader, seed, ends, done, crashes, progress)
        _, status = os.waitpid(child, 0)
        state = json.loads(progress.read_text())
        done, crashes = state["next"], state["crashes"]
        if os.waitstatus_to_exitcode(status):
            crashes.setdefault(f"the process died ({os.waitstatus_to_exitcode(status)})", done)
            done += 1
    return {"reader": name, "file": reader.file, "cases": done - first, "crashes": crashes}


def _cases(
    home: Path, name: str, reader: Reader, seed: int, ends: float, number: int, crashes: dict[str, int], progress: Path
) -> None:
    """The child: one case after the other."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    status = 1
    try:
        while time.monotonic() < ends:
            progress.write_text(json.dumps({"next": number, "crashes": crashes}))
            crash = run_case(home, reader, case_bytes(reader, name, number, seed))
            if crash:
                crashes.setdefault(crash, number)
            number += 1
        progress.write_text(json.dumps({"next": number, "crashes": crashes}))
        status = 0
    finally:
        os._exit(status)


def main() -> None:
    """Fuzz all readers, or some, and write the record; or repeat a case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15.0, help="for all readers together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", action="append", help="only this one")
    parser.add_argument("--case", type=int, help="repeat this case of a reader, with its traceback")
    parser.add_argument("--write", type=Path, default=RESULTS / "fuzz.json")
    words = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        os.environ["TAILCLOUD_CACHE"] = str(home / "own cache")
        readers = make_readers(home)
        names = words.reader or list(readers)
        if words.case is not None:
            path = home / readers[names[0]].file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(case_bytes(readers[names[0]], names[0], words.case, words.seed))
            print(path.read_bytes()[:2000])
            readers[names[0]].read(path)
            sys.exit("no crash")
        record: dict[str, Any] = {"seed": words.seed, "minutes": words.minutes, "readers": []}
        for name in names:
            record["readers"].append(fuzz(home, name, readers[name], words.seed, 60 * words.minutes / len(names)))
            print(record["readers"][-1], flush=True)
            seconds = round(time.monotonic() - started, 1)
            write_record(words.write, {**record, "seconds": seconds}, torch.device("cpu"))


if __name__ == "__main__":
    main()
