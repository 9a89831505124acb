"""Where a bench trains: what --on may say, which share a run gets, and a Ray that is not there."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.ranks import free_port
from tailcloud.bench.ray_cluster import Cluster, RunResources, connected, parse_cluster, run_resources
from tailcloud.errors import TailcloudError, UsageError

NODE = {"CPU": 128.0, "GPU": 8.0}
HEAD = {"CPU": 16.0}


@pytest.mark.parametrize(
    ("machines", "cluster", "share"),
    [
        ([HEAD], Cluster(), RunResources(0, 1)),
        ([HEAD], Cluster(cores=4), RunResources(0, 4)),
        ([HEAD, NODE], Cluster(), RunResources(1, 16)),
        ([HEAD, NODE], Cluster(gpus=0.125), RunResources(0.125, 2)),
        ([HEAD, NODE, {"CPU": 4.0, "GPU": 1.0}], Cluster(), RunResources(1, 4)),
        ([HEAD, NODE], Cluster(device="cpu"), RunResources(0, 1)),
        ([HEAD, NODE], Cluster(device="cuda", cores=3), RunResources(1, 3)),
    ],
)
def test_a_run_gets_a_gpu_with_its_part_of_the_cores_or_a_core(machines, cluster, share):
    assert run_resources(machines, cluster) == share


@pytest.mark.parametrize("cluster", [Cluster(device="cuda"), Cluster(gpus=0.5), Cluster(cores=17)])
def test_a_share_that_no_machine_has_is_refused_instead_of_waited_for(cluster):
    with pytest.raises(
        TailcloudError, match=r"a run needs .*, and the machines of this Ray cluster have 0 GPUs and 16 cores"
    ):
        run_resources([HEAD], cluster)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("slurm", "auto", None, None), "--on slurm is unknown"),
        (("ray=", "auto", None, None), "--on ray= is unknown"),
        (("ray=10.0.0.1", "auto", None, None), "--on ray=10.0.0.1 is not an address; give --on ray=HOST:PORT"),
        (("ray", "mps", None, None), "--device mps is not available with --on ray"),
        (("ray", "auto", 2.0, None), "--gpus-per-run 2 must be above 0 and at most 1"),
        (("ray", "auto", 0.0, None), "--gpus-per-run 0 must be above 0"),
        (("ray", "cpu", 0.5, None), "contradicts --device cpu"),
        (("ray", "auto", None, 0), "--cores-per-run 0 must be at least 1"),
        ((None, "auto", 0.5, None), "--gpus-per-run 0.5 needs --on ray"),
        ((None, "auto", None, 2), "--cores-per-run 2 needs --on ray"),
    ],
)
def test_a_wrong_cluster_is_refused(words, sentence):
    with pytest.raises(UsageError, match=sentence):
        parse_cluster(*words)


def test_a_place_is_this_machine_or_a_cluster_with_or_without_address():
    assert parse_cluster(None, "auto", None, None) is None
    assert parse_cluster("ray", "auto", None, None) == Cluster()
    assert parse_cluster("ray=10.0.0.1:6379", "cuda", 0.125, 4) == Cluster("10.0.0.1:6379", "cuda", 0.125, 4)


def test_without_the_extra_the_command_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(TailcloudError, match=r"--on ray needs Ray.*pip install 'tailcloud\[ray\]'"):
        connected(Cluster()).__enter__()


def test_ray_is_not_started_in_the_working_folder_from_which_its_workers_would_import(tmp_path, monkeypatch):
    started = []
    ray = SimpleNamespace(
        is_initialized=lambda: False, init=lambda **_: started.append(Path.cwd()), shutdown=lambda: None
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.chdir(tmp_path)
    with connected(Cluster()):
        assert Path.cwd() == tmp_path
    assert started == [Path(os.sep)]


@pytest.mark.parametrize("known", [True, False])
def test_a_cluster_that_does_not_answer_is_a_sentence_at_once(known, monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'tailcloud[ray]'")
    address = f"127.0.0.1:{free_port()}"
    if known:
        monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(TailcloudError, match=rf"the Ray cluster at {address} cannot be reached \(.*refused\)"):
        connected(Cluster(None if known else address)).__enter__()
