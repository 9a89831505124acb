"""Modules from strangers: traps that leave a file behind as soon as they are imported."""

NAMES = (
    *("json", "csv", "pickle", "socket", "signal", "queue", "random", "uuid", "tempfile", "multiprocessing"),
    *("subprocess", "concurrent", "asyncio", "inspect", "sitecustomize", "usercustomize", "torch", "torchvision"),
    *("numpy", "scipy", "sklearn", "PIL", "safetensors", "pydantic", "tomli_w", "typer", "click", "rich", "jinja2"),
    *("onnx", "onnxruntime", "triton", "ray", "timm", "huggingface_hub", "tensorboard", "tqdm", "yaml", "six"),
    "efficientnet_lite_pytorch",
)


def set_traps(folder):
    """Modules that leave a file behind as soon as they are imported."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(folder / f'{name}.ran')!r}, 'w').close()\n")


def sprung(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.ran"))
