"""A document's numbers as JSON, for other tools: `summary.json`. docs/reports.md names every key. Pure."""

from __future__ import annotations

import json

from lab.report.document import Document


def render(document: Document) -> str:
    return json.dumps(document.numbers, indent=1) + "\n"
