"""The trained model of a run folder: network, weights and ``model.json``. The files are data only."""

from hashlib import file_digest

from safetensors import SafetensorError
from safetensors.torch import load_file, save

from tailcloud.classifier import Classifier, classifier_with_weights
from tailcloud.errors import TailcloudError
from tailcloud.files import FORMAT, write_atomically
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.model_file import ModelFile, read_model_file, write_model_file


def read_trained_model(folder: RunFolder) -> tuple[Classifier, ModelFile]:
    """The network with the weights of a finished run, on the CPU, and its ``model.json``."""
    model_file = read_description(folder)
    try:
        return classifier_with_weights(model_file.architecture, load_file(folder.weights_file)), model_file
    except FileNotFoundError:
        raise weights_missing(folder) from None
    except (SafetensorError, RuntimeError, KeyError, TypeError):
        raise TailcloudError(
            f"{folder.path} holds a damaged model: {folder.weights_file.name} and {folder.model_file.name} do not fit "
            "together; copy the run folder again"
        ) from None


def write_trained_model(folder: RunFolder, model: Classifier, model_file: ModelFile) -> None:
    """Write the weights, and ``model.json`` with what is needed to use them."""
    weights = {name: value.cpu().contiguous() for name, value in model.state_dict().items()}
    write_atomically(folder.weights_file, save(weights, {"format": str(FORMAT)}))
    write_model_file(folder.model_file, model_file)


def read_description(folder: RunFolder) -> ModelFile:
    """The ``model.json`` of a finished run."""
    if not folder.model_file.is_file():
        raise TailcloudError(f"{folder.path} holds no trained model: {_why_no_model(folder)}")
    return read_model_file(folder.model_file)


def weights_digest(folder: RunFolder) -> str:
    """The SHA-256 of the weights of a finished run."""
    try:
        with folder.weights_file.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise weights_missing(folder) from None


def weights_missing(folder: RunFolder) -> TailcloudError:
    """The error of a run folder without its weights."""
    return TailcloudError(f"{folder.weights_file} is missing; copy the run folder again")


def _why_no_model(folder: RunFolder) -> str:
    """Why a folder has no model, and what to do."""
    if not folder.path.exists():
        return "the folder does not exist; pass the folder of a finished run"
    if not folder.exists:
        return f"it has no {folder.model_file.name}; pass the folder of a finished run"
    return f'its run is not finished; continue it with "tailcloud train --resume --out {folder.path}"'
