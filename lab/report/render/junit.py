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
    cases = [case for suite in document.suites for case in suite.cases]
    root = ET.Element("testsuites", {"name": name, **_counts(cases)})
    root.set("time", f"{document.took_s:.3f}")
    root.extend(_suite(suite) for suite in document.suites)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(suite: Suite) -> ET.Element:
    element = ET.Element("testsuite", {"name": suite.name, **_counts(suite.cases)})
    element.set("time", f"{sum(case.took_s for case in suite.cases):.3f}")
    element.extend(_case(suite, case) for case in suite.cases)
    return element


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    counts = {count: str(sum(case.outcome == outcome for case in cases)) for count, outcome in COUNTS.items()}
    return {"tests": str(len(cases)), **counts}


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
