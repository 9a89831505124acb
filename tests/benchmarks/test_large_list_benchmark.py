"""The benchmark of long lists, on a short one."""

from large_list import CLASSES, measure, write_list


def test_a_list_is_written_opened_and_sampled(tmp_path):
    file = write_list(tmp_path, 8 * CLASSES)
    assert len(file.read_text().splitlines()) == 8 * CLASSES
    assert all((tmp_path / line.split()[0]).is_file() for line in file.read_text().splitlines()[::1000])
    found = measure(file)
    names = ["imported", "opened", "fingerprint", "validation part held out", "sampler made", "epoch drawn"]
    assert [row["step"] for row in found] == names
    assert all(row["peak_bytes"] > 0 for row in found)
