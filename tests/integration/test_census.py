"""A census is of the run that a trial makes: from the prepared state, on whichever layer it is taken."""

from __future__ import annotations

import pytest
from lab.campaigns.frame import Request, checked, new_stage
from lab.trial.life import take_census

from lab.run.pool import Stop
from lab.trial.prepare import workloads

LAYERS = ("ext4", "tmpfs", "overlay")


@pytest.mark.docker
def test_a_census_starts_on_the_prepared_state_on_every_layer() -> None:
    """Reported: nothing held a tmpfs between its filling and the start, so its census was of an empty volume."""
    request = Request("test", "kernel", 7, LAYERS, 3, keep_evidence=False)
    subject = checked(request)
    with new_stage(request, subject, workloads(subject, request.seed, 1), Stop(), print) as stage:
        taken = dict(
            stage.crew.all(LAYERS, lambda worker, layer: (layer, take_census(stage.setting, worker, 0, layer, None)))
        )
    assert taken["ext4"] == taken["tmpfs"] == taken["overlay"]
    assert taken["tmpfs"][0].hook == "state.opened"  # which an empty volume has nothing to be hit at
