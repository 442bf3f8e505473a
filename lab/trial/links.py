"""The chain of evidence of each kind of script: links that were found broken, and links that were never made.

Pure. Each chain is a list of functions from evidence to what is wrong, in words; `lab.trial.judge` says what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lab.codec import from_json
from lab.model import END, CrashPoint, CrashScript, Evidence, Kind, Process, Scenario, Word
from lab.storage import mountinfo
from lab.storage.mountinfo import Expected

SIGKILLED = 137  # 128 + SIGKILL, as the engine reports it
Link = Callable[[Evidence], Iterator[str]]


@dataclass(frozen=True)
class Chain:
    """What a whole trial of one kind of script must show."""

    links: tuple[Link, ...]  # each is looked for in any trial, and found broken or not
    owed: tuple[Link, ...]  # each is one that a whole trial must have
    audits_first: bool  # an audit that differs makes even a loss meaningless; else it only explains what was late
    facts_each: bool  # a trial owes a fact of every property; else of any, and its run of each (`lab.report.coverage`)


def of(script: CrashScript | Scenario) -> Chain:
    return OF_A_CRASH_SCRIPT if isinstance(script, CrashScript) else OF_A_SCENARIO


def _on_the_layer(evidence: Evidence) -> Iterator[str]:
    expected = from_json(Expected, evidence.mount)
    answered = [look for look in evidence.looks if look.mount or look.properties]  # a verifier's error says neither
    lines = [look.mount for look in answered] + [p.mount for p in evidence.processes if p.mount is not None]
    for line in lines:
        if why := mountinfo.audit(line, expected):
            yield f"not on {evidence.trial.storage}: {why}"


def _all_processes(evidence: Evidence) -> Iterator[str]:
    numbers = [process.number for process in evidence.processes]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"it has processes {numbers}: one is missing"


def _each_process(evidence: Evidence) -> Iterator[str]:
    """Armed as the script says; killed by the lab, where it says, or not at all."""
    life = 0
    for process in evidence.processes:
        who = f"process {process.number}"
        point = None  # where the script wants it struck: no racer
        if process.racer is None:
            life += 1
            point = next((point for point in evidence.trial.kills if point.life == life), None)
        armed = point.place if point is not None and not point.is_moment else None
        if process.armed != armed:
            yield f"{who} was armed at {process.armed}, but the script says {armed}"
        if process.killed:
            yield from _killed(process, point, evidence)
        elif process.oom_killed:
            yield f"{who} was killed by its memory limit, not by the lab"
        elif process.exit_code == SIGKILLED:
            yield f"{who} exited {SIGKILLED} by itself: that is not a kill of the lab's"


def _killed(process: Process, point: CrashPoint | None, evidence: Evidence) -> Iterator[str]:
    """At its own place by its own record, alive before, and gone after, by the fault that was asked for."""
    who = f"process {process.number}"
    places = {point.place} if point is not None else set()
    if isinstance(evidence.trial.script, Scenario):
        places.add(f"{END}#1")  # clients may come to the end of their operations before
    if point is None:
        yield f"{who} was killed, and the script lets it live"
    elif process.hit is None:
        yield f"{who} was killed without a record of where it stood"
    elif str(process.hit) not in places:
        yield f"{who} was killed at {process.hit}, but the script says {point.place}"
    elif process.fault != point.fault:
        yield f"{who} was struck by {process.fault}, but the script says {point.fault}"
    if process.alive is None:
        yield f"{who} was not seen alive before it was killed"
    looked_at = any(look.process == process.number for look in evidence.looks)
    if process.exit_code is None and evidence.failure is not None and not looked_at:
        return  # its end could not be seen; the failure says why
    if process.exit_code != SIGKILLED:
        yield f"{who} ended with exit code {process.exit_code}, not {SIGKILLED}"
    if process.oom_killed is not False:
        yield f"{who} was killed by its memory limit"
    if process.gone is None:
        yield f"{who} was not seen gone after the kill"


def _nobody_ran_past_its_point(evidence: Evidence) -> Iterator[str]:
    """A process that announces its hook stands still there."""
    for process in evidence.processes:
        if not process.killed and process.hit is not None and process.exit_code is not None:
            yield (
                f"process {process.number} stood at {process.hit} and ended with exit code {process.exit_code} "
                "before it was killed"
            )


def _count_of_kills(evidence: Evidence) -> Iterator[str]:
    """What was judged must have been killed before; what a probe asks for must not be there to be killed at."""
    killed = [process for process in evidence.processes if process.killed]
    failure = evidence.failure
    judged = bool(evidence.looks) or failure is None or failure.word is Word.VIOLATION
    script = evidence.trial.script
    race = isinstance(script, CrashScript) and script.racers > 0 and not script.points
    if evidence.trial.kind is not Kind.PROBE:
        if judged and not killed and not race:
            yield "nothing was killed"
    elif killed:
        yield f"it reached {killed[0].armed}, which is not in the census: the enumeration is not complete"


def _came_to_its_end(evidence: Evidence) -> Iterator[str]:
    last = evidence.processes[-1] if evidence.processes else None
    if last is None or last.killed or last.exit_code != 0:
        yield "no process came to its end by itself with exit code 0"


def _census_kept(evidence: Evidence) -> Iterator[str]:
    trial = evidence.trial
    killed = sum(process.killed for process in evidence.processes)
    if trial.drawn == "all" and trial.kind is Kind.POINT and killed < len(trial.kills):
        yield f"{trial.kills[killed]}, which the census reached, was not reached"


def _racers_ended(evidence: Evidence) -> Iterator[str]:
    assert isinstance(evidence.trial.script, CrashScript)
    ended = [process for process in evidence.processes if process.racer is not None and process.exit_code is not None]
    if len(ended) != evidence.trial.script.racers:
        yield f"{len(ended)} of {evidence.trial.script.racers} racers were seen to their end"


def _every_look(evidence: Evidence) -> Iterator[str]:
    """A look at what each kill left, at what the last process recovered, and at the end."""
    if not evidence.processes:
        return
    last = evidence.processes[-1]
    wanted = [("killed", process.number) for process in evidence.processes if process.killed]
    wanted += [("recovered", last.number)] if evidence.trial.kind is not Kind.PROBE else []
    wanted += [("end", last.number)]
    looks = [(look.name, look.process) for look in evidence.looks]
    for name, number in wanted:
        if (name, number) not in looks:
            yield f"the verifier never looked at `{name}` of process {number}"


def _every_life(evidence: Evidence) -> Iterator[str]:
    assert isinstance(evidence.trial.script, Scenario)
    count = len(evidence.trial.script.lives)
    if len(evidence.processes) != count:
        yield f"{len(evidence.processes)} of its {count} lives began"
        return
    killed = [process.number for process in evidence.processes if process.killed]
    if killed != list(range(1, count)):
        yield f"lives {killed} were killed, of {count} all but the last"
    if evidence.processes[-1].alive is None:
        yield "its last life was not seen alive at the end"


def _read_back(evidence: Evidence) -> Iterator[str]:
    if not any(line.get("event") == "check" and line.get("final") for line in evidence.history):
        yield "what is left was never read back at the end"
    if not evidence.looks:
        yield "the verifier never looked"


OF_A_CRASH_SCRIPT = Chain(
    (_on_the_layer, _all_processes, _each_process, _nobody_ran_past_its_point, _count_of_kills),
    (_came_to_its_end, _census_kept, _racers_ended, _every_look),
    audits_first=True,
    facts_each=True,
)
OF_A_SCENARIO = Chain(
    (_on_the_layer, _all_processes, _each_process),
    (_every_life, _read_back),
    audits_first=False,
    facts_each=False,
)
