"""A fuzz run in numbers: what its `summary.json` holds, its exit code, and its verdict in a sentence. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lab import model
from lab.fuzz.model import CAMPAIGN, FuzzResult
from lab.model import Json, Word
from lab.report.fuzz_data import FuzzData, Struck, caught, distinct, failures, is_of_a_bug, points, said
from lab.report.headline import Headline
from lab.report.statistics import Quantiles, nearest_rank, quantiles
from lab.report.summary import EXIT_BROKEN, EXIT_ERROR, EXIT_INTERRUPTED, EXIT_PASS, exit_code
from lab.report.text import duration, plural


@dataclass(frozen=True)
class Waits:
    """How long requests waited, in ms; each a value that was measured (nearest rank)."""

    count: int
    p50: float
    p95: float
    p99: float
    max: float


@dataclass(frozen=True)
class Layer:
    """One storage layer in numbers."""

    storage: str
    trials: int
    verdicts: dict[str, int]  # every word, zeros included
    operations: int
    kills: int
    restarts: int
    up: Quantiles | None  # from asking the engine to start it to its first answer


@dataclass(frozen=True)
class Summary:
    """A whole fuzz run in numbers. Canaries are in no count but the two rates, which are of all that was done."""

    run: str
    subject: str
    seed: int
    trials: int
    verdicts: dict[str, int]
    layers: tuple[Layer, ...]
    operations: int
    operations_per_s: float
    kills: int
    kills_per_s: float
    restarts: int
    kinds: dict[str, int]  # of kills: hook, answer, invoke, start, end
    hooks: dict[str, int]  # kills at each hook of the catalogue, zeros included
    waits: dict[str, Waits]  # per operation
    facts: dict[str, int]  # per property
    notes: dict[str, int]  # losses that nobody promised to prevent, per operation
    distinct: int  # violations by property and operation
    bugs_planted: int
    bugs_caught: int
    bugs_missed: tuple[str, ...]
    shrunk: int
    corpus: int
    took_s: float
    no_work: tuple[str, ...]
    interrupted: bool
    exit_code: int

    @property
    def hooks_missed(self) -> tuple[str, ...]:
        return tuple(name for name, kills in self.hooks.items() if not kills)


def summarise(results: Sequence[FuzzResult], data: FuzzData) -> Summary:
    """All numbers of a run. A partial run gives a partial summary, and is not green."""
    counted = points(results)
    struck = [Struck.of(kill) for result in counted for kill in result.kills]
    at_hooks = Counter(s.hook for s in struck if s.kind == "hook")
    planted = caught(results, data)
    missed = tuple(c.bug.name for c in planted if c.by is None and not data.interrupted)
    no_work = _no_work(counted, data)
    return Summary(
        run=data.run,
        subject=data.subject,
        seed=data.seed,
        trials=len(counted),
        verdicts=_verdicts(counted),
        layers=tuple(_layer(points(results, storage), storage) for storage in data.storages),
        operations=sum(r.operations for r in counted),
        operations_per_s=_per_s(sum(r.operations for r in results), data),
        kills=len(struck),
        kills_per_s=_per_s(sum(len(r.kills) for r in results), data),
        restarts=sum(r.restarts for r in counted),
        kinds=dict(Counter(s.kind for s in struck).most_common()),
        hooks={name: at_hooks[name] for name in data.hooks},
        waits=_waits(counted),
        facts=_facts(counted, data),
        notes=dict(Counter(note_kind(note) for r in counted for note in r.notes).most_common()),
        distinct=sum(group[0].verdict.word is Word.VIOLATION for group in distinct(results)),
        bugs_planted=len(planted),
        bugs_caught=sum(c.by is not None for c in planted),
        bugs_missed=missed,
        shrunk=len(data.shrunk),
        corpus=data.corpus,
        took_s=data.took_s,
        no_work=no_work,
        interrupted=data.interrupted,
        exit_code=exit_code({r.verdict.word for r in failures(results)}, data.interrupted, bool(no_work or missed)),
    )


def _layer(mine: Sequence[FuzzResult], storage: str) -> Layer:
    return Layer(
        storage=storage,
        trials=len(mine),
        verdicts=_verdicts(mine),
        operations=sum(r.operations for r in mine),
        kills=sum(len(r.kills) for r in mine),
        restarts=sum(r.restarts for r in mine),
        up=quantiles([ms for r in mine for ms in r.up_ms]),
    )


def _verdicts(counted: Iterable[FuzzResult]) -> dict[str, int]:
    counts = Counter(r.verdict.word for r in counted)
    return {word.value: counts[word] for word in Word}


def _per_s(count: int, data: FuzzData) -> float:
    return round(count / data.took_s, 3) if data.took_s > 0 else 0.0


def waits_ms(counted: Iterable[FuzzResult]) -> dict[str, list[float]]:
    """Every wait per operation, sorted."""
    found: dict[str, list[float]] = defaultdict(list)
    for result in counted:
        for op, waits in result.waits_ms.items():
            found[op] += waits
    return {op: sorted(waits) for op, waits in sorted(found.items()) if waits}


def _waits(counted: Iterable[FuzzResult]) -> dict[str, Waits]:
    found = {}
    for op, ranked in waits_ms(counted).items():
        p50, p95, p99 = (nearest_rank(ranked, share) for share in (0.50, 0.95, 0.99))
        found[op] = Waits(len(ranked), p50, p95, p99, ranked[-1])
    return found


def _facts(counted: Sequence[FuzzResult], data: FuzzData) -> dict[str, int]:
    names = dict.fromkeys((*data.promises, *data.audits, *(name for r in counted for name in r.verdict.facts)))
    return {name: sum(r.verdict.facts.get(name, 0) for r in counted) for name in names}


def note_kind(note: str) -> str:
    """What kind of loss it is: the operation, or the property of one that names none."""
    found = said(note)
    return found.op if found.op != "-" else found.property or note.partition(":")[0]


def _no_work(counted: Sequence[FuzzResult], data: FuzzData) -> tuple[str, ...]:
    """Why the run proves too little. One that was interrupted has not had its chance, one of a bug ends early."""
    if data.interrupted:
        return ()
    if counted and not any(r.up_ms or r.operations or r.kills for r in counted):
        return ("no daemon came up: nothing was killed or checked",)
    gaps = [] if any(r.operations for r in counted) else ["no operation was sent"]
    gaps += [] if any(r.kills for r in counted) else ["the daemon was never killed"]
    if not is_of_a_bug(counted):
        facts = _facts(counted, data)
        gaps += [
            f"{name} is promised, and no fact of it was ever compared" for name in data.promised if not facts[name]
        ]
    return tuple(gaps)


def headline(results: Sequence[FuzzResult], data: FuzzData, summary: Summary) -> Headline:
    """What to say last; it agrees with the exit code."""
    counts = Counter(r.verdict.word.value for r in failures(results))
    red = ", ".join(f"{count:,} {word}" for word, count in counts.items())
    of_trials = f"{red} of {plural(summary.trials, 'trial')}, in {duration(summary.took_s)}"
    if summary.exit_code == EXIT_PASS:
        lost = sum(summary.notes.values())
        noted = f", {plural(lost, 'loss', 'losses')} that nobody promised to prevent" if lost else ""
        work = f"{plural(summary.operations, 'operation')} and {plural(summary.kills, 'real kill')}"
        return Headline("PASS", f"{work}, every promise held{noted}, in {duration(summary.took_s)}")
    if summary.exit_code == EXIT_INTERRUPTED:
        done = f"{plural(summary.trials, 'trial')} done{f' ({red})' if red else ''}"
        return Headline("INTERRUPTED", f"{done}; `lab resume {data.run}` finishes it")
    if summary.exit_code == EXIT_BROKEN:
        if is_of_a_bug(results) and summary.bugs_caught:
            by = ", ".join(f"{c.by.trial.ident:04d}" for c in caught(results, data) if c.by)
            return Headline("VIOLATION", f"the planted bug was caught by trial {by}: {of_trials}")
        kinds = plural(summary.distinct, "distinct violation")
        return Headline("VIOLATION", f"a promise was broken: {kinds}; {of_trials}")
    if summary.exit_code == EXIT_ERROR:
        return Headline("ERROR", f"the lab or the engine failed: {of_trials}")
    missed = f"{len(summary.bugs_missed)} of {plural(summary.bugs_planted, 'planted bug')} not caught"
    reasons = [part for part in (red, missed if summary.bugs_missed else "", *summary.no_work[:1]) if part]
    word = "UNPROVEN" if red or summary.bugs_missed else "NO-WORK"
    return Headline(word, f"not enough evidence: {'; '.join(reasons)}")


def to_json(summary: Summary) -> Json:
    """The content of `summary.json`."""
    return {
        "run": summary.run,
        "campaign": CAMPAIGN,
        "subject": summary.subject,
        "seed": summary.seed,
        "trials": summary.trials,
        "verdicts": summary.verdicts,
        "by_storage": {layer.storage: layer.verdicts for layer in summary.layers},
        "operations": summary.operations,
        "operations_per_second": summary.operations_per_s,
        "kills": summary.kills,
        "kills_per_second": summary.kills_per_s,
        "kills_by_kind": summary.kinds,
        "restarts": summary.restarts,
        "up_ms": {layer.storage: model.to_json(layer.up) for layer in summary.layers},
        "hooks": {"expected": len(summary.hooks), "killed_at": summary.hooks, "never": list(summary.hooks_missed)},
        "waits_ms": model.to_json(summary.waits),
        "facts": summary.facts,
        "notes": summary.notes,
        "distinct_violations": summary.distinct,
        "canaries": {
            "planted": summary.bugs_planted,
            "caught": summary.bugs_caught,
            "missed": list(summary.bugs_missed),
        },
        "shrunk": summary.shrunk,
        "corpus": summary.corpus,
        "took_s": round(summary.took_s, 3),
        "no_work": list(summary.no_work),
        "interrupted": summary.interrupted,
        "exit_code": summary.exit_code,
    }
