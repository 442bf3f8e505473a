"""A document as JUnit XML, for the test views of CI systems. Pure.

It is red exactly when the exit code of a finished run is not 0.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from lab.report.document import Case, Document, Suite
from lab.text import visible

COUNTS = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def render(document: Document) -> str:
    name = f"lab {visible(document.subject)} {document.campaign}"
    root = _group("testsuites", name, [case for suite in document.suites for case in suite.cases], document.took_s)
    for suite in document.suites:
        element = _group("testsuite", suite.name, suite.cases, sum(case.took_s for case in suite.cases))
        element.extend(_case(suite, case) for case in suite.cases)
        root.append(element)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _group(tag: str, name: str, cases: Sequence[Case], took_s: float) -> ET.Element:
    counts = {count: str(sum(case.outcome == outcome for case in cases)) for count, outcome in COUNTS.items()}
    return ET.Element(tag, {"name": name, "tests": str(len(cases)), **counts, "time": f"{took_s:.3f}"})


def _case(suite: Suite, case: Case) -> ET.Element:
    element = ET.Element("testcase", name=visible(case.name), time=f"{case.took_s:.3f}", classname=suite.name)
    if case.outcome == "passed":
        if case.body:
            ET.SubElement(element, "system-out").text = visible(case.body)
        return element
    ended = ET.SubElement(element, case.outcome, message=visible(case.message))
    if case.outcome != "skipped":
        ended.set("type", case.kind)
        ended.text = visible(case.body)
    return element
