"""A census is of the run that a trial makes: from the prepared state, on whichever layer it is taken."""

from __future__ import annotations

import docker
import pytest
from conftest import staged

from lab.campaigns.base import Inputs, Request
from lab.campaigns.session import checked
from lab.trial import take_census
from lab.trial.prepare import workloads

LAYERS = ("ext4", "tmpfs", "overlay")


@pytest.mark.docker
def test_a_census_starts_on_the_prepared_state_on_every_layer(engine: docker.DockerClient) -> None:
    """Reported: nothing held a tmpfs between its filling and the start, so its census was of an empty volume."""
    request = Request("matrix", "kernel", 7, LAYERS, 3, keep_evidence=False)
    scripts = workloads(checked(request), request.seed, 1)
    with staged(engine, request, Inputs(scripts.killed, scripts.prepared)) as stage:
        taken = dict(
            stage.pool.all(LAYERS, lambda worker, layer: (layer, take_census(stage.setting, worker, 0, layer, None)))
        )
    assert taken["tmpfs"].failure is None
    assert taken["ext4"] == taken["tmpfs"] == taken["overlay"]
    assert taken["tmpfs"].hits[0].hook == "state.opened"  # which an empty volume has nothing to be hit at
