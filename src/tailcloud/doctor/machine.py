"""Which device, threads, executor and kernels are used here, and why."""

import shutil
from importlib.util import find_spec

import torch

from tailcloud.data.memory import available_memory
from tailcloud.formatting import counted, magnitude
from tailcloud.training.devices import SMALL_STEP, cores, machine
from tailcloud.training.engine import COMPILE_FROM


def machine_facts(device: torch.device) -> list[tuple[str, str]]:
    """Names and sentences."""
    known = machine(device)
    free = available_memory()
    return [
        ("system", known["platform"]),
        ("processor", f"{known['processor']}, {counted(known['cores'], 'core')}"),
        ("free memory", "unknown" if free is None else f"{magnitude(free)}B"),
        ("device", device_reason(device)),
        ("threads", thread_reason(cores())),
        ("executor", executor_reason(device)),
        ("kernels", kernel_reason(device)),
        ("precision", f"{'bfloat16' if device.type == 'cuda' else 'float32'}, the default on {device.type}"),
    ]


def device_reason(device: torch.device) -> str:
    """The device, and why it is not another one."""
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        memory = magnitude(torch.cuda.get_device_properties(device).total_memory)
        name = torch.cuda.get_device_name(device)
        return f"cuda: {name}, {memory}B, capability {major}.{minor}, CUDA {torch.version.cuda}"
    return f"{device.type}: {cuda_reason()}"


def cuda_reason() -> str:
    """Why CUDA is not used."""
    if torch.cuda.is_available():
        return "you chose it; CUDA is here too"
    if torch.version.cuda is None:
        driver = shutil.which("nvidia-smi") is not None
        way_out = "; an NVIDIA driver is here: install PyTorch for CUDA to use it" if driver else ""
        return f"this PyTorch is built without CUDA{way_out}"
    return f"PyTorch is built for CUDA {torch.version.cuda}, but sees no GPU"


def thread_reason(available: int) -> str:
    """The threads of large and of small steps."""
    if available == 1:
        return "1: there is one core, or OMP_NUM_THREADS is 1"
    return f"{available}, one a core; 1 for steps below {magnitude(SMALL_STEP)}FLOP, where more are slower"


def executor_reason(device: torch.device) -> str:
    """What ``engine.executor = "auto"`` takes."""
    if device.type == "cuda":
        return "graphed, if all images are on the GPU; otherwise eager"
    if device.type == "cpu":
        return f"eager; compiled for runs of at least {magnitude(COMPILE_FROM)}FLOP, where compiling pays"
    return f"eager, the only one on {device.type} by default"


def kernel_reason(device: torch.device) -> str:
    """What ``engine.kernels = "auto"`` takes."""
    if device.type != "cuda":
        return "PyTorch's; fused ones need CUDA"
    if find_spec("triton") is None:
        return "PyTorch's; fused ones need the package triton, which is not installed"
    return "fused for small residual networks and layers of EfficientNet-Lite; otherwise PyTorch's"
