"""What is installed: Python, the packages that results depend on, and settings of the environment."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import tailcloud
from tailcloud.training.devices import commit

PACKAGES = (
    *("torch", "torchvision", "timm", "triton", "onnxruntime", "safetensors", "numpy", "scipy", "scikit-learn"),
    *("pillow", "huggingface-hub", "ray"),
)
VARIABLES = (
    *("TAILCLOUD_CACHE", "TAILCLOUD_COMMIT", "TAILCLOUD_DEBUG", "OMP_NUM_THREADS", "MKL_NUM_THREADS"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE"),
    *("PYTORCH_CUDA_ALLOC_CONF", "TORCH_COMPILE_DISABLE", "TORCHINDUCTOR_CACHE_DIR", "TRITON_INTERPRET"),
    *("HF_HOME", "HF_HUB_OFFLINE", "XDG_CACHE_HOME"),
)  # that change how a run computes, or where files are; none holds a secret


def installed() -> list[tuple[str, str]]:
    """Names and versions, tailcloud's first."""
    known = commit()
    source = f"commit {known}" if known else "commit unknown: not a git checkout"
    ours = [("tailcloud", f"{tailcloud.__version__} ({source})"), ("Python", platform.python_version())]
    return [*ours, *((name, package_version(name)) for name in PACKAGES)]


def package_version(name: str) -> str:
    """The version of an installed package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def environment_variables() -> list[tuple[str, str]]:
    """The variables that are set, of those that matter."""
    return [(name, os.environ[name]) for name in VARIABLES if name in os.environ]
