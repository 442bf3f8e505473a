"""Controls: each finding about hermes-agent 0.19.0 again, by the package's own calls, without our driver.

So what the cells report is a fact of that store. Each is its smallest repetition: a few calls, and deaths between them.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hermes_process import site
from kernel_process import DEADLINE_S, PYTHON

# `gateway` as a namespace: its __init__ would import the platforms.
PREAMBLE = """
import json, os, signal, sys, types
from pathlib import Path
sys.path.insert(0, os.environ["SITE"])
sys.modules["gateway"] = types.ModuleType("gateway")
sys.modules["gateway"].__path__ = [os.environ["SITE"] + "/gateway"]
from gateway import delivery_ledger as ledger
from hermes_state import SessionDB
db = SessionDB(Path(os.environ["HERMES_HOME"]) / "state.db")
def say(*what): print(json.dumps(what), flush=True)
def die(): os.kill(os.getpid(), signal.SIGKILL)
def record(): ledger.record_obligation(obligation_id="d", session_key="s", platform="telegram", chat_id="1",
                                       thread_id=None, content="hello")
def sweep(): return [(row["obligation_id"], row["needs_marker"]) for row in ledger.sweep_recoverable()]
"""


def process(home: Path, code: str) -> tuple[list[Any], int]:
    """What a process of these calls says, and how it ended."""
    done = subprocess.run(
        [*PYTHON, "-c", PREAMBLE + code],
        env={"SITE": str(site()), "HERMES_HOME": str(home)}, capture_output=True, text=True, timeout=DEADLINE_S,
    )  # fmt: skip
    assert done.returncode in (0, -9), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def test_what_a_start_has_sent_and_not_yet_marked_is_sent_again_without_a_marker(tmp_path: Path) -> None:
    """A silent duplicate: `sweep_recoverable` leaves a pending row pending, and the gateway's redelivery does too."""
    assert process(tmp_path, "record(); die()") == ([], -9)
    assert process(tmp_path, "say(sweep()); die()") == ([[[["d", False]]]], -9)  # sends it plainly, then dies
    assert process(tmp_path, "say(sweep())") == ([[[["d", False]]]], 0)  # a second plain copy
    assert process(tmp_path, "say(sweep())") == (
        [[[["d", False]]]],
        0,
    )  # and a third, the last that MAX_ATTEMPTS allows
    assert process(tmp_path, "say(sweep())") == ([[[]]], 0)


# The gateway's own function, cut out of its module, which needs the platforms. It sends, then dies.
REDELIVER = """
import asyncio, logging, textwrap
source = Path(os.environ["SITE"], "gateway", "run.py").read_text()
_, head, rest = source.partition("    async def _redeliver_pending_obligations(")
scope = {"asyncio": asyncio, "logger": logging.getLogger(), "Platform": str}
exec(textwrap.dedent(head + rest[: rest.index("\\n    def ")]), scope)
async def send(chat_id, content, metadata):
    say(content)
    die()
gateway = types.SimpleNamespace(adapters={"telegram": types.SimpleNamespace(send=send)})
asyncio.run(scope["_redeliver_pending_obligations"](gateway))
"""


def test_the_gateways_own_redelivery_sends_the_second_copy_without_a_marker_too(tmp_path: Path) -> None:
    """That the driver makes the gateway's calls and no fewer is shown by the gateway's own function."""
    process(tmp_path, "record(); die()")
    assert process(tmp_path, REDELIVER) == ([["hello"]], -9)
    assert process(tmp_path, REDELIVER) == ([["hello"]], -9)
    process(tmp_path, "ledger.mark_attempting('d')")
    (marked,), _ = process(tmp_path, REDELIVER)
    assert marked[0].startswith("♻️ Recovered reply")


def test_had_the_start_marked_its_attempt_the_copy_would_carry_the_marker(tmp_path: Path) -> None:
    """The same with the one call that the gateway makes before a first send and not before a redelivery."""
    process(tmp_path, "record(); die()")
    process(tmp_path, "sweep(); ledger.mark_attempting('d'); die()")
    assert process(tmp_path, "say(sweep())") == ([[[["d", True]]]], 0)


def test_a_hand_off_whose_gateway_died_can_be_neither_claimed_nor_requested_again(tmp_path: Path) -> None:
    """Limbo: `running` has neither owner nor lease; only `fail_handoff` by the command line that asked ends it."""
    parked = "db.create_session('i', 'cli'); say(db.request_handoff('i', 'telegram'), db.claim_handoff('i')); die()"
    assert process(tmp_path, parked) == ([[True, True]], -9)
    after = "say(db.list_pending_handoffs(), db.claim_handoff('i'), db.request_handoff('i', 'telegram'))"
    assert process(tmp_path, after) == ([[[], False, False]], 0)
    retry = "db.fail_handoff('i', 'timed out'); say(db.request_handoff('i', 'telegram'), db.claim_handoff('i'))"
    assert process(tmp_path, retry) == ([[True, True]], 0)


def test_a_rotation_that_died_after_its_first_call_leaves_a_closed_session_that_nothing_continues(
    tmp_path: Path,
) -> None:
    """Half a rotation: `end_session`, `create_session`, `replace_messages` are a transaction each."""
    half = (
        "db.create_session('s', 'cli'); db.append_message('s', 'user', 'a'); db.end_session('s', 'compression'); die()"
    )
    process(tmp_path, half)
    start = "db.finalize_orphaned_compression_sessions()"  # of the command line, for children older than a week
    session = "db.get_compression_tip('s'), db.get_session('s')['end_reason'], len(db.get_messages('s'))"
    says, _ = process(tmp_path, f"say({start}, {session})")
    assert says == [[0, "s", "compression", 1]]


def test_compaction_in_place_is_there_entirely_or_not_at_all(tmp_path: Path) -> None:
    """The package's default instead of rotation: one transaction, also for a process that dies inside it."""
    talk = "db.create_session('s', 'cli'); [db.append_message('s', 'user', f'm{n}') for n in range(3)]; "
    inside = (
        "db._conn.set_progress_handler(die, 400); db.archive_and_compact('s', [{'role': 'user', 'content': 'x'}] * 99)"
    )
    assert process(tmp_path, talk + inside)[1] == -9
    assert process(tmp_path, "say([m['content'] for m in db.get_messages('s')])") == ([[["m0", "m1", "m2"]]], 0)


@pytest.mark.parametrize("mode", ["delete", "truncate", "persist"])
def test_a_file_made_in_another_journal_mode_ends_in_wal(tmp_path: Path, mode: str) -> None:
    """Why those legs are not offered."""
    with closing(sqlite3.connect(tmp_path / "state.db")) as made:
        assert made.execute(f"PRAGMA journal_mode={mode}").fetchone() == (mode,)
        made.execute("CREATE TABLE mine (n)")
    assert process(tmp_path, "say(db._conn.execute('PRAGMA journal_mode').fetchone()[0])") == ([["wal"]], 0)
