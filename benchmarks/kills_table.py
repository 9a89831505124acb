"""The record of benchmarks/kills.py as tables for docs/robustness.md."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tailcloud.formatting import counted
from tailcloud.reporting.tables import markdown

SIGNALS = ("SIGKILL", "SIGTERM", "SIGINT")
TARGETS = ("process", "decoder", "parent", "worker", "terminal", "rank", "launcher")


def parts(record: dict[str, Any]) -> list[str]:
    """What was killed and where, and what was found."""
    about, counts = record["machine"], record["counts"]
    origin = f"{about['processor']}, {about['cores']} cores, torch {about['torch']}, commit `{record['commit']}`"
    return [
        markdown(["", "chains", *SIGNALS, "kills", "who was hit"], map(_scenario, *_of(record))),
        "",
        markdown(["killed while", *SIGNALS, "kills"], _phases(counts)),
        "",
        _outcome(record),
        "",
        f"Measured on {origin}.",
    ]


def _of(record: dict[str, Any]) -> tuple[Iterable[dict[str, Any]], Iterable[Sequence[dict[str, Any]]]]:
    scenarios = {name: about for name, about in record["scenarios"].items() if about["chains"]}
    counts = [[one for one in record["counts"] if one["scenario"] == name] for name in scenarios]
    return scenarios.values(), counts


def _scenario(about: dict[str, Any], counts: Sequence[dict[str, Any]]) -> list[str]:
    hit = _sums(counts, "target")
    targets = ", ".join(f"{name} {hit[name]}" for name in TARGETS if hit[name])
    return [about["about"], f"{about['chains']:,}", *_by_signal(counts), targets]


def _phases(counts: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The most frequent first."""
    order = [phase for phase, _ in _sums(counts, "phase").most_common()]
    return [[phase, *_by_signal([one for one in counts if one["phase"] == phase])] for phase in order]


def _by_signal(counts: Sequence[dict[str, Any]]) -> list[str]:
    """Kills by each signal, and all."""
    sums = _sums(counts, "signal")
    return [*(f"{sums[name]:,}" for name in SIGNALS), f"{sums.total():,}"]


def _sums(counts: Sequence[dict[str, Any]], key: str) -> Counter[str]:
    sums = Counter[str]()
    for one in counts:
        sums[one[key]] += one["kills"]
    return sums


def _outcome(record: dict[str, Any]) -> str:
    """In words: how many, and what went wrong."""
    before = record["before_the_last_mending"]
    kills, chains = counted(record["kills"], "kill"), counted(record["chains"], "chain")
    said = [
        f"{kills} in {chains} of {record['commands']:,} commands; disks failed {record['disk_failures']:,} times. "
        f"{record['by_shell']:,} kills hit commands that were started from a shell or by torchrun, the others commands "
        "that were forked with everything imported. "
        f"Chains with a failure: {record['failures']}.",
        f"After a kill, the last process was gone within {record['slowest_end_seconds']:.1f} s.",
    ]
    if before["chains"]:
        kills, chains = counted(before["kills"], "kill"), counted(before["chains"], "chain")
        said.append(f"Not counted: {kills} in {chains} before the last mending, of which {before['failures']} failed.")
    if void := len(record["void"]) + record["errors_of_the_script"]:
        said.append(
            f"Not counted either: {counted(void, 'chain')} in which the script itself was wrong (see the record)."
        )
    return " ".join(said)
