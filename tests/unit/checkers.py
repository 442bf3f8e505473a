"""The real checkers, importable as in their images: each package of images/system/checkers beside the harness.

An image holds one of them; here all are there at once, under the same names.
"""

from __future__ import annotations

import sys
from pathlib import Path

CHECKERS = Path(__file__).resolve().parents[2] / "images" / "system" / "checkers"
HARNESS = CHECKERS / "base"
PACKAGES = {name: CHECKERS / name for name in ("kernel", "cells", "models")}
sys.path.insert(0, str(HARNESS))

import verifier  # noqa: E402 - found by the path above

verifier.__path__ += [str(folder) for folder in PACKAGES.values()]


def launch(checker: Path) -> str:
    """A program that is the command `verify` of the image of that checker."""
    return (
        f"import sys; sys.path.insert(0, {str(HARNESS)!r}); import verifier; "
        f"verifier.__path__.append({str(checker)!r}); from verifier.main import main; sys.exit(main(sys.argv[1:]))"
    )
