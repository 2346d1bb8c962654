"""Files that older versions wrote load, evaluate and are proved again.

`fixtures/older` was written by the code as it was before files were checked field by field; `first-*` by the first
version of all, whose layers had fewer fields. What those versions called proved is conditional on their proofs, some of
which were wrong, until it is proved again.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import attnfun as af
from attnfun.proofs.claim import EDGE_ASSUMPTION
from attnfun.proofs.storage import OLDER_PROOF
from test_files import description, sine, stepwise

OLDER = Path(__file__).parent / "fixtures" / "older"
WRITTEN = {
    "black-box": 0.2562932763326009,
    "circuit": 0.08946426212787628,
    "clipped": 0.3384245144637207,
    "declared": 0.253993710723234,
    "first-black-box": 0.2562932763326009,
    "first-head": 0.7554899428355589,
    "head": 0.7554899428355589,
    "head-float32": 0.7554899454116821,
    "l2": 0.5931996220413464,
    "rectifiers": -0.5766903025289266,
    "region": 0.22014516425461772,
    "samples": 0.2999999999887259,
    "sum": 1.7554899428355588,
    "traced": 0.2334200622347525,
    "undefined": 0.4236395059519708,
}
"""What the version that wrote the file computed at the point 0.3, or (0.3, 0.3)."""
FUNCTIONS = {"traced": sine, "black-box": stepwise}
"""Those whose code is not in the file."""
CONDITIONAL = ("declared", "undefined")


def older(name: str) -> af.types.Compiled:
    return af.load(OLDER / f"{name}.safetensors")


def test_every_file_is_tried():
    assert {path.stem for path in OLDER.iterdir()} == set(WRITTEN)


@pytest.mark.parametrize("name", WRITTEN)
def test_older_files_compute_what_they_did(name):
    net = older(name)
    value = net(net.domain.unflatten(np.full((1, net.domain.size), 0.3)))
    assert float(np.ravel(value)[0]) == pytest.approx(WRITTEN[name], abs=1e-6)


@pytest.mark.parametrize("name", WRITTEN)
def test_older_files_are_not_called_proved(name):
    stated, certificate = description(OLDER / f"{name}.safetensors")["certificate"], older(name).certificate
    assert "random" not in stated["effort"]
    assert certificate.bound == stated["bound"]
    if stated["status"] == "estimated":
        assert certificate.status is af.types.Status.ESTIMATED
        assert [line for line in stated["assumptions"] if line not in certificate.assumptions] == []
    else:
        assert certificate.status is af.types.Status.CONDITIONAL
        assert OLDER_PROOF in certificate.assumptions
    assert (EDGE_ASSUMPTION in certificate.assumptions) == (name == "undefined")


@pytest.mark.parametrize("name", sorted(set(WRITTEN) - {"samples", "first-black-box"}))
def test_older_files_are_proved_again(name):
    certificate = older(name).certificate
    again = certificate.recheck(FUNCTIONS.get(name))
    assert OLDER_PROOF not in again.assumptions
    assert again.bound <= certificate.bound * (1 + 1e-12)
    estimated = certificate.status is af.types.Status.ESTIMATED
    expected = (
        af.types.Status.ESTIMATED
        if estimated
        else af.types.Status.CONDITIONAL
        if name in CONDITIONAL
        else af.types.Status.PROVED
    )
    assert again.status is expected


@pytest.mark.parametrize("name", WRITTEN)
def test_saving_an_older_file_proves_nothing(name, tmp_path):
    net = older(name)
    net.save(tmp_path / "f.safetensors")
    again = af.load(tmp_path / "f.safetensors")
    assert again.certificate.as_dict() == net.certificate.as_dict()
    assert again.summary() == net.summary()
