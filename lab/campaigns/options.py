"""Options of `lab run` that several campaigns share."""

from __future__ import annotations

import math

import click

MAX_SHARD_CHARS = 20  # Python refuses to read a number of thousands of digits


def _shard(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if not value:
        return None
    index, slash, of = value.partition("/")
    plain = slash and index.isdecimal() and of.isdecimal() and value.isascii() and len(value) <= MAX_SHARD_CHARS
    if not plain or not 1 <= int(index) <= int(of):
        raise click.BadParameter("is i/n with 1 <= i <= n, such as 2/8")
    return int(index), int(of)


def number(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """A number that is one: no range keeps out nan."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("is no number")
    return value


SHARD = click.Option(["--shard"], envvar="LAB_SHARD", callback=_shard, help="Only part i of n of the plan: i/n.")
