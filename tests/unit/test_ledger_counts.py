"""What a report says that the outside world counted."""

from __future__ import annotations

import pytest

from lab.trial.judge import count_ledger


@pytest.mark.parametrize(("sends", "resent"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_an_effect_is_sent_again_from_its_second_send_on(sends: int, resent: int) -> None:
    """Planted: counted from the third send on. A campaign that owes a re-send would look as if it had none."""
    requests = [{"do": "send", "effect": "a", "result": "landed"} for _ in range(sends)]
    assert count_ledger({"requests": requests, "effects": []}).resent == resent
