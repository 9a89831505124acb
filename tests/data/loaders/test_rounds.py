"""Pieces of sampled, varied, mixed batches: whoever computes them, together they are the batches of one process."""

import numpy as np
import pytest
import torch

from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.dataset import Split
from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.batch_share import WHOLE, Share
from tailcloud.data.loaders.joined import JoinedLoader
from tailcloud.data.loaders.resident import ResidentImages, ResidentLoader
from tailcloud.sampling import WEIGHTS, make_sampler

SIZE, CLASSES = 75, 5


def stream(share=WHOLE, sampler="ib", mixup=0.0, **options):
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (SIZE, 6, 6, 3), np.uint8)
    labels = np.sort(generator.integers(0, CLASSES, SIZE))
    data = ResidentImages(Split(pixels, labels), torch.device("cpu"))
    settings = {"batch": 16, "crop_padding": 2, "flip": True, "seed": 7, "epochs": 4, "share": share} | options
    normalise = Normalise([0.4] * 3, [0.2] * 3)
    return ResidentLoader(data, make_sampler(sampler, labels, CLASSES), normalise, mixup=mixup, **settings)


def joined(share=WHOLE):
    return JoinedLoader(
        stream(share),
        view=stream(share, views="second views"),
        second=stream(share, "cb", stage="stage1 second"),
    )


def tensors(batch: Batch):
    own = [batch.images, batch.target, batch.other, batch.view]
    return own + (tensors(batch.second) if batch.second else [])


def together(pieces):
    """The batch that some pieces make up."""
    ordered = sorted(pieces, key=lambda piece: piece.place)
    assert all(torch.equal(piece.whole, torch.cat([each.target for each in ordered])) for piece in ordered)
    columns = zip(*map(tensors, ordered), strict=True)
    return [None if column[0] is None else torch.cat(column) for column in columns]


def shares(ranks, each):
    return [Share(first=each * rank, count=each, of=each * ranks) for rank in range(ranks)]


@pytest.mark.parametrize(("ranks", "each"), [(1, 3), (2, 1), (4, 1), (2, 2), (7, 3)])
@pytest.mark.parametrize("sampler", sorted(WEIGHTS))
@pytest.mark.parametrize("mixup", [0.0, 1.0])
def test_pieces_are_the_batches_bit_for_bit(ranks, each, sampler, mixup):
    whole = list(stream(sampler=sampler, mixup=mixup).epoch(3))
    rounds = [list(stream(share, sampler, mixup).rounds(3)) for share in shares(ranks, each)]
    for step, batch in enumerate(whole):
        pieces = [piece for rank in rounds for piece in rank[step]]
        assert len(pieces) == ranks * each
        for expected, made in zip(tensors(batch), together(pieces), strict=True):
            assert (expected is made is None) or torch.equal(expected, made)
        assert batch.lam is None or all(torch.equal(piece.lam, batch.lam) for piece in pieces)


def test_streams_are_cut_together():
    rounds = [list(joined(share).rounds(1)) for share in shares(2, 2)]
    for step, batch in enumerate(joined().epoch(1)):
        made = together([piece for rank in rounds for piece in rank[step]])
        assert all((a is b is None) or torch.equal(a, b) for a, b in zip(tensors(batch), made, strict=True))


@pytest.mark.parametrize("loader", [stream(mixup=1.0), joined()])
def test_alone_a_round_is_the_batch_and_an_epoch_may_start_anywhere(loader):
    whole = list(loader.epoch(2))
    for first in (0, 3, len(whole)):
        rounds = list(loader.rounds(2, first))
        assert [len(pieces) for pieces in rounds] == [1] * (len(whole) - first)
        for (piece,), batch in zip(rounds, whole[first:], strict=True):
            assert torch.equal(piece.images, batch.images)
            assert piece.whole is None
