"""What the report of each kind of campaign consists of, as data; and how a document is made of it. Pure.

A campaign of its own kind lists its sections and what it owes with `Report`, and touches nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping

from lab.report import coverage, sections
from lab.report.cases import canary_cases, evidence_case, property_cases, trial_cases
from lab.report.document import Document, Report, Section, Suite
from lab.report.headline import gaps, headline
from lab.report.legs import idle_legs
from lab.report.numbers import numbers, rates, starts_each
from lab.report.text import plural
from lab.report.timeline import Timeline
from lab.run.data import RunData


def real_kills(data: RunData) -> str:
    return plural(coverage.kills(data), "real kill")


def operations_and_kills(data: RunData) -> str:
    operations = sum(r.operations for r in data.points())
    return f"{plural(operations, 'operation')} and {real_kills(data)}"


def _plan_facts(data: RunData) -> list[tuple[str, str, str]]:
    rate, _, _ = rates(data)
    planned = f"of {data.planned():,}" if data.planned() != len(data.points()) else ""
    again = f"{coverage.second_crashes(data):,} trials struck again"
    return [
        ("trials", f"{len(data.points()):,}", planned),
        ("real kills", f"{coverage.kills(data):,}", again),
        ("hooks, on every layer", f"{coverage.covered_everywhere(data):,}", f"of {data.expected_hooks:,}"),
        _canary_fact(data),
        ("trials per second", f"{rate:.1f}", f"{starts_each(data):.1f} starts each"),
    ]


def _client_facts(data: RunData) -> list[tuple[str, str, str]]:
    _, operations, kills = rates(data)
    return [
        ("trials", f"{len(data.points()):,}", ""),
        ("operations", f"{sum(r.operations for r in data.points()):,}", f"{operations:.1f} a second"),
        ("real kills", f"{coverage.kills(data):,}", f"{kills:.2f} a second"),
        ("hooks killed at", f"{coverage.covered(data):,}", f"of {len(data.hooks):,}"),
        _canary_fact(data),
    ]


def _canary_fact(data: RunData) -> tuple[str, str, str]:
    planted = coverage.canaries(data)
    return "planted bugs caught", f"{sum(c.caught_by is not None for c in planted):,}", f"of {len(planted):,}"


MATRIX = Report(
    sections=(
        sections.layers(sections.RECOVERY, sections.STARTS, sections.FIRST_POINTS),
        sections.rests_on(
            sections.hooks_line,
            sections.points_line,
            sections.effects_line,
            sections.facts_line,
            sections.canaries_line,
            sections.bound_line,
        ),
        sections.recovery_times,
        sections.checked,
        sections.effects,
        sections.canaries,
        sections.hooks,
        sections.proves(
            "Crash points that were not tried, beyond the bound.", "Crashes between two hooks.", "Other workloads."
        ),
        sections.environment,
    ),
    owes=(
        coverage.nothing_tried,
        coverage.idle_layers,
        coverage.dead_checks,
        coverage.every_hook,
        coverage.asked_coverage,
    ),
    cases=trial_cases,
    facts=_plan_facts,
    work=real_kills,
    partial=coverage.some_hooks,
)

CELLS = Report(
    sections=(sections.cells, *MATRIX.sections),
    owes=(
        coverage.nothing_tried,
        coverage.idle_layers,
        idle_legs,
        coverage.nothing_promised,
        coverage.dead_audits,
        coverage.drawn_hooks,
        coverage.asked_coverage,
    ),
    cases=trial_cases,
    facts=_plan_facts,
    work=real_kills,
)

FUZZ = Report(
    sections=(
        sections.layers(sections.OPERATIONS, sections.KILLS, sections.RESTARTS, sections.UP),
        sections.wait_times,
        sections.rests_on(
            sections.rate_line,
            sections.kinds_line,
            sections.any_hooks_line,
            sections.effects_line,
            sections.facts_line,
            sections.corpus_line,
            sections.canaries_line,
        ),
        sections.checked,
        sections.canaries,
        sections.hooks,
        sections.proves(
            "That tomorrow's run finds the same: clients side by side never meet in the same way twice.",
            "Scenarios that were not drawn.",
        ),
        sections.environment,
    ),
    owes=(coverage.nothing_tried, coverage.nothing_asked, coverage.dead_promises),
    cases=property_cases,
    facts=_client_facts,
    work=operations_and_kills,
)


def document(data: RunData, report: Report, pictures: Mapping[int, Timeline] = {}) -> Document:
    """The report of a run; `pictures` are of red trials, by their number."""
    final, lacking = headline(data, report), gaps(data, report.owes)
    found: list[Section] = [of(data) for of in report.sections]
    found += [sections.red_trials(data, pictures), sections.unpromised(data), sections.not_enough(data, lacking)]
    tests = [(storage, report.cases(data, storage)) for storage in data.storages]
    tests += [("canaries", canary_cases(data)), ("evidence", [evidence_case(final, lacking)])]
    return Document(
        run=data.run,
        campaign=data.campaign,
        subject=data.subject,
        seed=data.seed,
        took_s=data.took_s,
        headline=final,
        facts=report.facts(data),
        about=_about(data),
        sections=[section for section in found if section.blocks],
        suites=[Suite(f"{data.campaign}.{name}", cases) for name, cases in tests],
        numbers=numbers(data, final, lacking),
    )


def _about(data: RunData) -> list[tuple[str, str]]:
    what = [f"{data.campaign}, run {data.run}", f"layers {', '.join(data.storages)}", ", ".join(data.faults)]
    what += [plural(data.workloads, "workload")] if data.workloads else []
    what += [f"asked for {data.bounds}"] if data.bounds else []
    about = [("subject", data.subject), ("campaign", ", ".join(filter(None, what))), ("seed", str(data.seed))]
    return [*about, sections.bound_line(data)] if data.points_known else about
