"""``tailcloud data``: what is printed, and how it fails."""

import subprocess
import sys
from dataclasses import replace
from hashlib import md5

import numpy as np
import pytest
from typer.testing import CliRunner

from tailcloud.cli.data import app
from tailcloud.data.benchmarks import cifar, download
from tailcloud.errors import TailcloudError, UsageError


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def cifar10(tmp_path, monkeypatch):
    """A CIFAR-10 of 500 + 100 images in the binary layout, declared to be the published one."""
    monkeypatch.setattr(cifar, "TRAIN_IMAGES", 500)
    monkeypatch.setattr(cifar, "TEST_IMAGES", 100)
    edition = cifar.CIFAR_EDITIONS["cifar10"]
    folder = tmp_path / edition.layouts[1].folder
    folder.mkdir()
    records = np.random.default_rng(0).integers(0, 256, (100, 3073), np.uint8)
    records[:, 0] = np.arange(100) % 10
    for file in edition.layouts[1].files[:-1]:
        records.tofile(folder / file)
    (folder / "batches.meta.txt").write_text("\n".join("abcdefghij"))
    sums = dict.fromkeys(edition.layouts[1].files[:-1], md5(records.tobytes()).hexdigest()) | {"batches.meta.txt": None}
    layouts = (edition.layouts[0], replace(edition.layouts[1], sums=sums))
    monkeypatch.setitem(cifar.CIFAR_EDITIONS, "cifar10", replace(edition, layouts=layouts))
    return tmp_path


def line_of(output, name):
    return next(line for line in output.splitlines() if line.split()[:1] == [f"{name},"])


def test_ls_says_what_there_is_and_what_is_here(run, cifar10):
    result = run("ls", "--root", cifar10)
    assert result.exit_code == 0
    assert line_of(result.output, "cifar10").split()[2:] == ["10", "50,000", "+", "10,000", "170", "MB", "yes"]
    assert line_of(result.output, "cifar100").split()[2:] == ["100", "50,000", "+", "10,000", "169", "MB", "no"]
    assert "built in" in line_of(result.output, "digits-lt")
    (cifar10 / "cifar-10-batches-bin" / "data_batch_1.bin").unlink()
    assert line_of(run("ls", "--root", cifar10).output, "cifar10").endswith("incomplete  ")


def test_verify_prints_ok_counts_and_fingerprint(run, cifar10):
    result = run("verify", "cifar10-lt:10", "--root", cifar10)
    assert result.exit_code == 0
    assert result.output.startswith("OK: cifar10-lt:10 has 199 training images (50 … 5 a class) and 100 test images")
    found = cifar.open_cifar("cifar10", 10, cifar10).fingerprint
    assert result.output.endswith(f"in 10 classes, fingerprint {found}\n")


def test_verify_fails_with_every_changed_file(run, cifar10):
    for file in ("data_batch_2.bin", "test_batch.bin"):
        path = cifar10 / "cifar-10-batches-bin" / file
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    result = run("verify", "cifar10", "--root", cifar10)
    assert isinstance(result.exception, TailcloudError)
    assert result.exception.exit_code == 1
    assert "differs from the published CIFAR-10 in data_batch_2.bin, test_batch.bin; run" in str(result.exception)
    assert "OK" not in result.output


def test_verify_takes_images_for_choosing_settings(run, cifar10, monkeypatch):
    """That they are no benchmark is no fault; a changed file is one."""
    monkeypatch.setattr(cifar, "LARGEST_SUBSET", 5)
    assert run("verify", "cifar10-lt-tune:10", "--root", cifar10).output.startswith("OK: cifar10-lt-tune:10 has ")
    path = cifar10 / "cifar-10-batches-bin" / "data_batch_2.bin"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    error = str(run("verify", "cifar10-lt-tune:10", "--root", cifar10).exception)
    assert "differs from the published CIFAR-10 in data_batch_2.bin" in error
    assert "choosing" not in error


def test_verify_without_data(run, tmp_path):
    result = run("verify", "cifar100-lt:50", "--root", tmp_path)
    assert isinstance(result.exception, TailcloudError)
    assert "cifar100-lt:50 needs CIFAR-100 in" in str(result.exception)


def test_verify_digits_and_nonsense(run):
    assert run("verify", "digits-lt").output.startswith("OK: digits-lt has 331 training images (120 … 2 a class)")
    assert isinstance(run("verify", "digit").exception, UsageError)


@pytest.mark.parametrize("name", ["cifar10", "cifar10-lt", "cifar10-lt:100"])
def test_get_says_when_there_is_nothing_to_do(run, cifar10, name):
    result = run("get", name, "--root", cifar10)
    assert result.exit_code == 0
    assert "CIFAR-10 is already in" in result.output


def test_get_says_where_to_put_the_file_when_the_network_is_away(run, tmp_path):
    result = run("get", "cifar100", "--root", tmp_path, "--url", "http://127.0.0.1:1/")
    assert isinstance(result.exception, TailcloudError)
    assert f"save it as {tmp_path}/cifar-100-python.tar.gz first" in str(result.exception)


def test_get_needs_a_known_name(run, tmp_path):
    assert isinstance(run("get", "imagenet", "--root", tmp_path).exception, UsageError)
    assert "needs no download" in run("get", "digits-lt").output


@pytest.mark.parametrize("total", [1_000_000, None])
def test_get_prints_plain_lines_where_there_is_no_terminal(run, tmp_path, monkeypatch, total):
    def fake(name, root, progress, *, url):
        for here in range(0, 1_000_001, 1000):
            progress(here, total)
        return "done"

    monkeypatch.setattr(download, "get", fake)
    lines = run("get", "cifar10", "--root", tmp_path).output.splitlines()
    assert lines[-1] == "done"
    assert len(lines) == (12 if total else 2)
    assert lines[0] == f"0 MB of {'1 MB' if total else 'an unknown size'}"


def test_get_shows_a_bar_on_a_terminal(run, tmp_path, monkeypatch):
    def fake(name, root, progress, *, url):
        progress(10, 100)
        progress(100, 100)
        return "done"

    monkeypatch.setattr(download, "get", fake)
    monkeypatch.setenv("FORCE_COLOR", "1")
    result = run("get", "cifar10", "--root", tmp_path)
    assert "100/100 bytes" in result.output
    assert result.output.endswith("done\n")


@pytest.mark.parametrize("verb", ["ls", "get", "verify"])
def test_help_teaches_by_example(run, verb):
    assert f"Example: tailcloud data {verb}" in run(verb, "--help").output


def test_the_module_is_quick_to_import():
    code = "import sys, tailcloud.cli.data; print([m for m in ('torch', 'numpy', 'rich.progress') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
