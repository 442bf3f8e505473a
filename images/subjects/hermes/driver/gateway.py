"""What hermes-agent's gateway does at start-up and around a send: the same calls of its ledger in the same order.

The gateway itself cannot be started without its platforms. Each function says where it was read, in 0.19.0.
"""

import os

from driver.store import delivery_ledger, status

PLATFORM, CHAT = "telegram", "1"  # any that the gateway knows; nothing here depends on which


class AnotherGateway(Exception):
    """A gateway of this home is running: a second one does not start."""


_home_is_ours = False  # of the process, as the package's own handle of the lock is


def claim_home() -> None:
    """Be the only gateway of this home, or raise AnotherGateway. gateway/run.py, start_gateway."""
    global _home_is_ours
    if _home_is_ours:
        return
    running = status.get_running_pid()
    if running is not None and running != os.getpid():
        raise AnotherGateway(f"gateway {running} is running")
    if not status.acquire_gateway_runtime_lock():
        raise AnotherGateway("the gateway's runtime lock is held")
    try:
        status.write_pid_file()
    except FileExistsError:
        status.release_gateway_runtime_lock()
        raise AnotherGateway("the race for the gateway's pid file is lost") from None
    _home_is_ours = True


def redeliver(provider, records) -> int:
    """Send what a dead gateway left; returns how many got through. gateway/run.py, _redeliver_pending_obligations."""
    sent = 0
    for row in delivery_ledger.sweep_recoverable(None, deliverable_platforms={PLATFORM}):
        records.reach("redelivery.claimed")
        text = row["content"]
        if row["needs_marker"]:
            text = delivery_ledger.RECOVERED_MARKER + text
        error = _send(provider, row["obligation_id"], text)
        records.reach("redelivery.sent")
        if error:
            delivery_ledger.mark_failed(row["obligation_id"], error)
        else:
            delivery_ledger.mark_delivered(row["obligation_id"])
            sent += 1
    return sent


def record(delivery: str, session: str, content: str) -> None:
    """Owe a final response. gateway/platforms/base.py, before the send."""
    delivery_ledger.record_obligation(
        obligation_id=delivery, session_key=session, platform=PLATFORM, chat_id=CHAT, thread_id=None, content=content
    )


def deliver(provider, records, delivery: str, content: str) -> str:
    """Send what is owed; returns what went wrong, or "". gateway/platforms/base.py, around the send."""
    delivery_ledger.mark_attempting(delivery)
    records.reach("outbox.attempting")
    error = _send(provider, delivery, content)
    records.reach("outbox.sent")
    if error:
        delivery_ledger.mark_failed(delivery, error)
    else:
        delivery_ledger.mark_delivered(delivery)
    return error


def _send(provider, delivery, text):
    """A copy counts as marked if its text begins with the package's own marker."""
    marker = delivery_ledger.RECOVERED_MARKER
    return provider.send(delivery, text.removeprefix(marker), marked=text.startswith(marker))
