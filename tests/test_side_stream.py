"""Work on a second stream: only in a captured step, and waited for."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from tailcloud.side_stream import SideStream


@pytest.mark.parametrize("capturing", [True, False])
def test_only_a_captured_step_has_a_second_stream(monkeypatch, capturing):
    """One that is launched from Python could take the stream that another run captures."""
    said = []

    def stream(*_arguments, **_options):
        return SimpleNamespace(wait_stream=lambda other: said.append("wait"))

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)
    monkeypatch.setattr(torch.cuda, "Stream", stream)
    monkeypatch.setattr(torch.cuda, "current_stream", stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    with SideStream(torch.device("cuda")) as side:
        side.run(lambda: said.append("work"))
    assert said == (["wait", "work", "wait"] if capturing else ["work"])
