"""The views of a synthetic run, each by the report of its campaign."""

from __future__ import annotations

from lab.report.document import Document, Headline
from lab.report.headline import gaps as gaps_of
from lab.report.headline import headline as headline_of
from lab.report.render import html, junit, markdown, text
from lab.report.reports import CELLS, FUZZ, MATRIX, document
from lab.run.data import RunData

REPORTS = {"matrix": MATRIX, "cells": CELLS, "fuzz": FUZZ}


def made(data: RunData, **pictures: object) -> Document:
    return document(data, REPORTS[data.campaign], **pictures)  # type: ignore[arg-type]


def headline(data: RunData) -> Headline:
    return headline_of(data, REPORTS[data.campaign])


def gaps(data: RunData) -> tuple[str, ...]:
    return gaps_of(data, REPORTS[data.campaign].owes)


def end(data: RunData) -> str:
    """What a terminal gets."""
    return text.render(made(data))


def page(data: RunData, **pictures: object) -> str:
    return html.render(made(data, **pictures))


def xml(data: RunData) -> str:
    return junit.render(made(data))


def md(data: RunData) -> str:
    return markdown.render(made(data))


def flat(shown: str) -> str:
    """Without the line breaks of a narrow screen."""
    return " ".join(shown.split())
