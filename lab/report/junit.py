"""A run as JUnit XML, for the test views of CI systems. Pure.

One suite a layer, one for the canaries, one for what a green run must have seen: a CI system that reads nothing but
this file must not see green where `lab` exits with another code than 0.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

from lab.model import Kind, Result, Trial, Word
from lab.report import coverage, legs, text
from lab.report.data import BROKEN, GREEN, LegInfo, RunData
from lab.report.headline import headline
from lab.report.summary import Summary

# What JUnit calls a failure is a broken assertion; an error is a test that could not say.
_TAG = {word: "failure" if word in BROKEN else "error" for word in Word if word not in GREEN}


def render(data: RunData, summary: Summary) -> str:
    """The XML document as text."""
    root = ET.Element(
        "testsuites", name=f"lab {text.printable(data.subject)} {data.campaign}", time=f"{data.took_s:.3f}"
    )
    for storage in data.storages:
        add_suite(root, f"{data.campaign}.{storage}", _trial_cases(data, storage))
    add_suite(root, f"{data.campaign}.canaries", _canary_cases(data))
    add_suite(root, f"{data.campaign}.evidence", [_evidence_case(data, summary)])
    return document(root)


def document(root: ET.Element) -> str:
    """The text of suites that are all there."""
    for count in ("tests", "failures", "errors", "skipped"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def add_suite(root: ET.Element, name: str, cases: list[ET.Element]) -> None:
    """A suite of these cases, counted."""
    suite = ET.SubElement(root, "testsuite", name=name, tests=str(len(cases)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")
    for case in cases:
        case.set("classname", name)
        suite.append(case)


def _trial_cases(data: RunData, storage: str) -> list[ET.Element]:
    finished = [r for r in data.ordered if r.trial.kind is not Kind.CANARY and r.trial.storage == storage]
    left = [t for t in coverage.unfinished(data) if t.kind is not Kind.CANARY and t.storage == storage]
    cases = [_trial_case(data, result) for result in finished] + [_unfinished_case(data, trial) for trial in left]
    return cases + [_refused_case(leg) for leg in legs.shown(data) if not leg.offered]


def _trial_case(data: RunData, result: Result) -> ET.Element:
    case = new_case(_name(data, result.trial), result.took_s)
    word = result.verdict.word
    if word in _TAG:
        lines = [f"{label}: {said}" for label, said in text.details(data, result)]
        fail(case, _TAG[word], f"{word}: {text.title(result)}", "\n".join(lines), word)
    elif word is Word.NOTE:
        ET.SubElement(case, "system-out").text = text.one_line(f"note: {result.verdict.why or text.title(result)}")
    return case


def _unfinished_case(data: RunData, trial: Trial) -> ET.Element:
    case = new_case(_name(data, trial), 0)
    ET.SubElement(case, "skipped", message="the run ended before this trial")
    return case


def _refused_case(leg: LegInfo) -> ET.Element:
    case = new_case(leg.name, 0)
    ET.SubElement(case, "skipped", message=text.printable(f"{legs.NOT_OFFERED}: {leg.reason}"))
    return case


def _canary_cases(data: RunData) -> list[ET.Element]:
    cases = []
    for canary in coverage.canaries(data):
        case = new_case(f"{canary.bug.name} on {canary.storage}", sum(r.took_s for r in canary.tries))
        if canary.caught_by is None:
            message = (
                f"planted bug not caught by {canary.bug.property} in {text.plural(len(canary.tries), 'try', 'tries')}"
            )
            fail(case, "failure", message, canary.bug.meaning, "canary missed")
        cases.append(case)
    return cases


def _evidence_case(data: RunData, summary: Summary) -> ET.Element:
    case = new_case("the campaign has seen what it must", 0)
    if summary.no_work:
        fail(case, "error", headline(data, summary).sentence, "\n".join(summary.no_work), "NO-WORK")
    return case


def _name(data: RunData, trial: Trial) -> str:
    kind = "" if trial.kind is Kind.POINT else f"{trial.kind} "
    leg = data.leg(trial)
    about = f"{leg.name} " if leg else ""
    return f"{text.ident(trial)} {kind}{about}{text.points(trial)} (workload {trial.workload}, {trial.fault})"


def new_case(name: str, took_s: float) -> ET.Element:
    """A test that has passed, unless it is made to fail."""
    return ET.Element("testcase", name=text.printable(name), time=f"{took_s:.3f}")


def fail(case: ET.Element, tag: str, message: str, body: str, kind: str) -> None:
    """Make it a `failure`, a broken assertion, or an `error`, a test that could not say."""
    ET.SubElement(case, tag, message=text.printable(message), type=kind).text = text.printable(body)
