"""`lab show` of a fuzz run: the run, or one trial of it life by life. Pure; at most 100 columns but for paths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeVar

from lab.fuzz.model import FuzzEvidence, FuzzResult, Op
from lab.model import Json, Kind, Process
from lab.report.data import GREEN
from lab.report.fuzz import details, end_text, ident, note_lines, title, trial_line
from lab.report.fuzz_data import FuzzData, failures, said_of
from lab.report.fuzz_summary import summarise
from lab.report.show import LOG_LINES, UnknownTrial, environment_lines, look_lines
from lab.report.table import WIDTH, align, ends, labelled
from lab.report.text import HEADING_CHARS, one_line, plural, printable, value
from lab.run.reproducer import arguments

T = TypeVar("T")

OPERATIONS_SHOWN = 60  # of a life, the last ones: what a kill cut or followed; history.jsonl has them all
LIVES_SHOWN = 12  # the last ones, and the first
NAMES_SHOWN = 6  # of a list that was read back, the last ones
CHATS_SHOWN = 12  # of a check
STILL_MS = 100  # a shorter pause of the machine is its ordinary business


def show_run(results: Sequence[FuzzResult], data: FuzzData) -> str:
    """A run: where it ran, a line for each trial that was not green, and its end."""
    lines = [f"run {data.run}  fuzz of {data.subject}, seed {data.seed}", "", *environment_lines(data.environment)]
    if red := failures(results):
        lines += ["", f"{plural(len(red), 'red trial')}; look at one: lab show {data.run} {ident(red[0].trial)}"]
        lines += [trial_line(r) for r in red]
    return "\n".join([*lines, "", end_text(results, data, summarise(results, data))])


def show_trial(results: Sequence[FuzzResult], data: FuzzData, wanted: int, evidence: FuzzEvidence | None = None) -> str:
    """One trial, whole if its evidence was kept whole and is given. Raises UnknownTrial."""
    result = next((r for r in results if r.trial.ident == wanted), None)
    if result is None:
        raise UnknownTrial(data.run, wanted, [r.trial.ident for r in results], "it has finished no trial")
    lines = [*_head(result, data), "", *_counts(result)]
    if evidence is None:
        kept = "in brief: the journal's line alone (lab run --evidence all keeps every trial whole)"
        return "\n".join([*lines, *labelled("evidence", kept)]) + "\n"
    parts = (_times(evidence), _table(evidence), *_lives(evidence, said_of(result).step), _end(evidence))
    lines += [line for part in parts for line in ("", *part)]
    return "\n".join(lines) + "\n"


def _head(result: FuzzResult, data: FuzzData) -> list[str]:
    trial, word = result.trial, result.verdict.word
    what = f"  {one_line(title(result), HEADING_CHARS)}" if word not in GREEN else ""
    planted = f"  ({'canary' if trial.kind is Kind.CANARY else 'planted bug'} {trial.bug})" if trial.bug else ""
    lines = [ends(f"{word.upper()}{what}{planted}", f"trial {ident(trial)} · {trial.storage} · sigkill")]
    return lines + [line for label, text in details(result, data) for line in labelled(label, one_line(text, 400))]


def _counts(result: FuzzResult) -> list[str]:
    up = ", ".join(f"{ms:,.0f} ms" for ms in result.up_ms) or "never"
    lines = [
        ("up", f"after {up}; {plural(result.restarts, 'restart')}, {result.took_s:.2f} s in all"),
        ("facts", ", ".join(f"{name} {count:,}" for name, count in result.verdict.facts.items()) or "none"),
        ("mount", result.mount or "not seen"),
        ("verifier", result.verifier or "not seen"),
    ]
    said = [line for label, text in lines for line in labelled(label, one_line(text))]
    return [*said, *(line for note in note_lines(result) for line in labelled("", note))]


def _times(evidence: FuzzEvidence) -> list[str]:
    """Where the time went, and what ended it early."""
    spent: dict[str, float] = defaultdict(float)
    for phase in evidence.phases:
        spent[phase.name] += phase.took_ms
    asked = " ".join(f"{key}={value(said)}" for key, said in evidence.mount.items())
    lines = [
        *labelled("asked", f"mount {one_line(asked)}"),
        *labelled("time", ", ".join(f"{name} {ms:,.0f} ms" for name, ms in spent.items()) or "none"),
    ]
    if failed := evidence.failure:
        lines += labelled("failed", f"{failed.word} in {failed.phase}: {one_line(failed.what, 600)}")
    if evidence.diagnosis:
        lines += labelled("diagnosis", one_line(evidence.diagnosis, 600))
    return lines


def _table(evidence: FuzzEvidence) -> list[str]:
    """What was seen of each life's process: `-` is not seen."""
    rows = [["life", "armed", "struck at", "alive", "killed", "exit", "memory", "gone"]]
    for seen in _ends(evidence.processes):
        memory = {None: "-", True: "over its limit", False: "ok"}[seen.oom_killed]
        code = "-" if seen.exit_code is None else str(seen.exit_code)
        struck = str(seen.hit) if seen.hit is not None and seen.killed else "-"
        cells = [seen.armed or "-", struck, seen.alive or "-", "SIGKILL" if seen.killed else "no", code, memory]
        rows.append([str(seen.number), *(one_line(cell, 24) for cell in (*cells, seen.gone or "-"))])
    return align(rows, left=len(rows[0]))


def _lives(evidence: FuzzEvidence, step: str) -> Iterator[list[str]]:
    """Life by life what was sent, answered, killed and read back; the operation that a verdict names is marked."""
    lives: dict[int, list[Json]] = {}
    life = 1
    for line in evidence.history:
        life = max(life, line.get("life", life))
        lives.setdefault(life, []).append(line)
    answers = {line["id"]: line for line in evidence.history if line["event"] in ("ok", "fail", "info")}
    shown = _ends(sorted(lives))
    for number in shown:
        process = next((p for p in evidence.processes if p.number == number), None)
        yield [*_life(number, process), *_events(lives[number], answers, step)]
    if len(lives) > len(shown):
        yield [f"{plural(len(lives) - len(shown), 'other life', 'other lives')} not shown: history.jsonl has them"]


def _ends(lives: Sequence[T]) -> Sequence[T]:
    """The first one and the last ones."""
    return lives if len(lives) <= LIVES_SHOWN else [lives[0], *lives[1 - LIVES_SHOWN :]]


def _life(number: int, process: Process | None) -> list[str]:
    command = one_line(" ".join(process.command), WIDTH - 12) if process else "never seen"
    return [f"life {number}: {command}"]


def _events(lines: Sequence[Json], answers: dict[int, Json], step: str) -> Iterator[str]:
    sent = [line for line in lines if line["event"] == "invoke" and line["step"]]
    hidden = {line["id"] for line in sent[:-OPERATIONS_SHOWN] if str(line["step"]) != step}
    if hidden:
        yield f"  {plural(len(hidden), 'operation')} not shown: history.jsonl has them"
    for line in lines:
        event = line["event"]
        if event == "invoke" and line["step"] and line["id"] not in hidden:
            yield _operation(line, answers.get(line["id"]), marked=str(line["step"]) == step)
        elif event == "up":
            yield "  up"
        elif event == "killed":
            yield f"  kill -9   at {one_line(str(line['at']), 80)}"
        elif event == "still" and line["ms"] >= STILL_MS:
            yield f"  the machine stood still for {line['ms']:,.0f} ms"
        elif event == "settled":
            yield "  idle" if line["idle"] else "  it never got idle"
        elif event == "check":
            yield from _check(line)
        elif event == "check-failed":
            yield f"  what is left could not be read back: {one_line(str(line['why']), 60)}"
        elif event == "error":
            yield f"  the clients failed: {one_line(str(line['what']), 76)}"


def _operation(sent: Json, answer: Json | None, *, marked: bool) -> str:
    """`>   41  client 2  queue/remove  c1 p38 -> {"removed": true}   12.3 ms`."""
    op = Op(sent["step"], sent["client"], sent["op"], sent["args"])
    wait = f"{answer['at_ms'] - sent['at_ms']:,.1f} ms" if answer else ""
    head = f"{'>' if marked else ' '}{op.step:>5}  client {op.client:<2} {op.op:<17}  "
    room = WIDTH - len(head) - 14
    said = one_line(f"{arguments(op)} -> {_answer(op.op, answer)}".strip(), room)
    return f"{head}{said:<{room}}  {wait:>12}".rstrip()


def _answer(op: str, answer: Json | None) -> str:
    if answer is None:
        return "nothing was recorded"
    if answer["event"] == "info":
        return f"no answer: {answer['why']}"
    if answer["event"] == "fail":
        return f"error {answer['error'].get('code')}: {answer['error'].get('message')}"
    if op == "chat/read":
        return _chat(answer["result"])
    return value(answer["result"]) if answer["result"] else "ok"


def _check(line: Json) -> Iterator[str]:
    """What was read back, chat by chat."""
    chats, read = line["observed"]["chats"], line["observed"]["read"]
    yield from _wrapped("final check:" if line.get("final") else "check:", f"chats {_some(chats)}", 2)
    for name, chat in list(read.items())[:CHATS_SHOWN]:
        yield from _wrapped(f"{name}:", _chat(chat), 4)
    if len(read) > CHATS_SHOWN:
        yield f"    and {plural(len(read) - CHATS_SHOWN, 'more chat')}"


def _wrapped(label: str, text: str, indent: int) -> list[str]:
    return labelled(one_line(label, 20), one_line(text, 400), indent=indent, width=len(one_line(label, 20)) + 1)


def _chat(read: Json | None) -> str:
    if read is None:
        return "not there"
    log = [f"{entry['prompt']} {entry['outcome']}" for entry in read["log"]]
    parts = [
        f"draft {read['draft'] or 'none'}",
        f"queue {_some(read['queue'])}",
        f"running {read['running'] or 'none'}",
        f"log {_some(log)}",
        f"watches {_some(read['watches'])}",
    ]
    return "; ".join(parts)


def _some(names: Sequence[str]) -> str:
    """The last ones, and how many there are in all."""
    shown = ", ".join(map(str, names[-NAMES_SHOWN:])) or "none"
    return f"{shown} (the last of {len(names):,})" if len(names) > NAMES_SHOWN else shown


def _end(evidence: FuzzEvidence) -> list[str]:
    """The oracle's look, and the last words of a life that ended by itself."""
    lines = look_lines(evidence.look) if evidence.look else ["the oracle has not looked"]
    for process in evidence.processes:
        if not process.killed and process.exit_code is not None:
            said = [line.rstrip() for line in printable(process.log).splitlines() if line.strip()][-LOG_LINES:]
            lines += ["", f"last words of life {process.number}"]
            lines += [line for text in said for line in labelled("log", text[:400], indent=2)]
    return lines
