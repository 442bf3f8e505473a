"""The campaigns. A new one is a module of this package that registers itself, and a line here (docs/campaigns.md)."""

from lab.campaigns import cells, fuzz, matrix

__all__ = ["cells", "fuzz", "matrix"]
