"""The sentences of a diagnosis, from what a look at the kernel's lock table may find."""

from __future__ import annotations

from lab.trial.diagnosis import File, Lock, Process, Sight, sentences

DEAD = "ab12" * 16
SHIM = Process(4700, "containerd-shim -id x", 3.5, "/system.slice")
DAEMON = Process(4711, "muxd serve", 3.25, f"/docker/{DEAD}")
LOCK_FILE = File("lock", "00:2a", 17, 2, "1\n")


def lock(holder: Process | None = DAEMON, open_in: tuple[Process, ...] = ()) -> Lock:
    return Lock("lock", "FLOCK", "WRITE", 4711, holder, (SHIM,) if holder else (), open_in)


def test_a_file_that_names_an_owner_is_told_from_a_lock_that_is_held() -> None:
    """Planted: a process id in a file taken for a lock, by a daemon that is process 1 again and waits for itself."""
    said = sentences(Sight((LOCK_FILE, File("log", "00:2a", 18, 4096, "")), ()), "/data", [DEAD])
    assert said == [
        "Nobody holds a lock on a file of the home, by the kernel's table.",
        "The home has a file `lock`, 2 bytes: `1`.",
    ]


def test_a_holder_of_the_killed_daemons_container_is_called_one() -> None:
    """Planted: a daemon whose child outlives it and keeps its lock."""
    said = sentences(Sight((LOCK_FILE,), (lock(),)), "/data", ["00" * 32, DEAD])
    assert said[0] == (
        "Process 4711 `muxd serve`, started 3.2 s ago, holds a lock (flock, write) on /data/lock; it belongs to the "
        "killed daemon's container (life 2, ab12ab12ab12). It descends from 4700 `containerd-shim`."
    )


def test_a_holder_of_another_container_is_not_blamed_on_the_dead_one() -> None:
    """Two trials on one home would fake a held lock."""
    (said, _) = sentences(Sight((LOCK_FILE,), (lock(),)), "/data", ["00" * 32])
    assert f"another container or to the machine (cgroup /docker/{DEAD})" in said


def test_a_lock_that_outlives_its_holder_names_who_has_its_file_open() -> None:
    """A flock belongs to a descriptor: the process of the table may be gone while its child keeps the lock."""
    (said, _) = sentences(Sight((LOCK_FILE,), (lock(None, (DAEMON,)),)), "/data", [DEAD])
    assert said.startswith("Process 4711 took a lock (flock, write) on /data/lock and has ended. Process 4711 `muxd")
    assert "has the file open; it belongs to the killed daemon's container" in said
    (said, _) = sentences(Sight((LOCK_FILE,), (lock(None),)), "/data", [DEAD])
    assert said.endswith("and has ended. Who has the file open is not to be seen.")


def test_a_lock_of_an_open_file_is_of_no_process_and_nobody_is_said_to_have_ended() -> None:
    """The table shows -1 for it, which is no dead process."""
    held = Lock("lock", "OFDLCK", "WRITE", -1, None, (), (DAEMON,))
    (said, _) = sentences(Sight((LOCK_FILE,), (held,)), "/data", [DEAD])
    assert said.startswith("No process is named for a lock (ofdlck, write) on /data/lock. Process 4711 `muxd serve`")


def test_a_home_full_of_locks_makes_no_book() -> None:
    """Bounded output: the diagnosis is one line of a report."""
    files = tuple(File(f"{n}.pid", "00:2a", n, 2, "1") for n in range(50))
    said = sentences(Sight(files, (lock(),) * 20), "/data", [DEAD])
    assert len(said) == 8
    assert "And 16 more locks." in said
