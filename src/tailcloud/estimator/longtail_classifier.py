"""``LongTailClassifier``: a scikit-learn estimator that trains with tailcloud."""

import os
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from tailcloud.errors import TailcloudError
from tailcloud.estimator.fit import call_text, data_of, fit_run, settings_of
from tailcloud.estimator.inference import probabilities
from tailcloud.estimator.inputs import as_images
from tailcloud.estimator.persistence import NOT_SAVED, read_saved, result_of, texts_of, write_folder
from tailcloud.launch.run_plan import TrainRequest
from tailcloud.runs.folder import RunFolder
from tailcloud.serving.load import load
from tailcloud.training.devices import pick_device


class LongTailClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """An image classifier for long-tailed classes, as a scikit-learn estimator.

    ``fit`` does what ``tailcloud train --data … --set method=METHOD`` does, with the same checks: it chooses backbone,
    image size, batch and epochs from the data and the machine, trains all stages of the method, and calibrates
    probabilities on held-out images. Other methods or heads are not compared with it.

    Args:
        method: one of ``tailcloud recipes ls``, for example "ce" or "mislas".
        epochs: of the first stage; by default chosen from the data and the time.
        size: pixels a side that every image is resized to; by default chosen from the images.
        backbone: a name such as "efficientnet_lite0"; by default chosen from the images.
        weights: what the backbone starts from: "pretrained", a tag, a file, or "none" for training from scratch; by
            default chosen. ``tailcloud weights ls`` lists what is published.
        validation_fraction: the share of each class that is held out of training, to calibrate on; by default 0.1, or
            0 if there are fewer than 500 images.
        settings: fields of the recipe, as tables or with dots: ``{"stage1.lr": 0.05}``. They win over all others.
        time_budget: the time for training, as "10m" or in seconds; by default half an hour on a CPU, unlimited on a
            GPU.
        device: "auto", "cpu", "cuda" or "mps", for training and prediction.
        seed: everything random follows from it.
        out: a new run folder, with log and report; by default nothing is left on the disk.
        verbose: 1 prints what was chosen and why, and all notes; 2 each evaluated epoch too.

    Attributes:
        classes_: the labels, sorted; of a folder, the names of its classes.
        model_: the trained module on the CPU, as ``tailcloud.load`` gives it.
        result_: every figure of the run, as in result.json; its remarks say which images were evaluated.

    >>> from tailcloud import LongTailClassifier
    >>> from tailcloud.data import open_dataset
    >>> digits = open_dataset("digits-lt")
    >>> classifier = LongTailClassifier(epochs=5, device="cpu")
    >>> classifier.fit(digits.train.images, digits.train.labels).classes_
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> classifier.predict_proba(digits.test.images).shape
    (500, 10)
    """

    def __init__(
        self,
        method: str = "gcl",
        *,
        epochs: int | None = None,
        size: int | None = None,
        backbone: str | None = None,
        weights: str | None = None,
        validation_fraction: float | None = None,
        settings: dict[str, Any] | None = None,
        time_budget: str | float | None = None,
        device: str = "auto",
        seed: int = 0,
        out: str | os.PathLike[str] | None = None,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.epochs = epochs
        self.size = size
        self.backbone = backbone
        self.weights = weights
        self.validation_fraction = validation_fraction
        self.settings = settings
        self.time_budget = time_budget
        self.device = device
        self.seed = seed
        self.out = out
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Train on images [N, H, W] or [N, H, W, 1 or 3], on a list of paths, or on a folder, a list file or ``.npz``.

        Arrays are uint8, uint16 (divided by 257) or floats from 0 to 1, as in ``.npz`` files. ``y`` are their labels,
        text or numbers; a folder has its own labels, so leave out ``y``. A file that cannot be read is skipped with a
        warning; more than 5 % of such files are an error.
        """
        started = time.perf_counter()
        data, classes = data_of(X, y)
        parameters = self.get_params()
        request = TrainRequest(
            data=data,
            settings=settings_of(parameters),
            device=self.device,
            time_budget=self.time_budget,
            started=started,
            origin=call_text(type(self).__name__, parameters, type(self)().get_params()),
        )
        if self.out is None:
            with TemporaryDirectory(prefix="tailcloud-") as folder:
                self._train(request, Path(folder) / "run", report=False)
        else:
            self._train(request, Path(self.out), report=True)
        self.classes_ = np.array(self.model_.class_names) if classes is None else classes
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class [N] of each image; images are arrays of any size, or a list of paths."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        chosen: NDArray[Any] = self.classes_[likeliest]
        return chosen

    def predict_proba(self, X: Any, *, prior: ArrayLike | None = None) -> NDArray[np.float64]:
        """Calibrated probabilities [N, classes], in the order of ``classes_``.

        ``prior`` is the expected class prior of these images, one share or count per class; by default the prior that
        the model was trained for.
        """
        check_is_fitted(self, "model_")
        return probabilities(self.model_, as_images(X), pick_device(self.device), prior)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a new run folder, which ``load``, ``tailcloud predict``, ``export`` and ``report`` read.

        The parameter ``out`` is not saved, and neither is the report: "tailcloud report FOLDER" writes one.
        """
        check_is_fitted(self, "model_")
        parameters = {key: value for key, value in self.get_params().items() if key not in NOT_SAVED}
        write_folder(Path(path), self.model_, self._texts, parameters, self.classes_)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A saved classifier, or the classifier of any run folder; nothing in the folder is executed."""
        folder = RunFolder(Path(path))
        model = load(folder.path)
        parameters, classes = read_saved(folder.path, model)
        try:
            loaded = cls(**parameters)
        except TypeError:
            raise TailcloudError(
                f"{path} was saved by another version of tailcloud; fit the classifier again"
            ) from None
        loaded._take(folder)
        loaded.classes_ = classes
        return loaded

    def _train(self, request: TrainRequest, out: Path, *, report: bool) -> None:
        fit_run(replace(request, out=out), verbose=self.verbose, report=report)
        self._take(RunFolder(out))

    def _take(self, folder: RunFolder) -> None:
        """Read a finished run into memory; its folder is not needed afterwards."""
        self.model_ = load(folder.path)
        self.result_ = result_of(folder)
        self._texts = texts_of(folder)

    def __sklearn_tags__(self) -> Any:
        """X is images or paths, not rows of features."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        return tags
