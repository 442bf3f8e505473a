"""The harness of every verifier: speaks the protocol, reads the volume, keeps what each look saw.

`verify NAME` imports the module `verifier.NAME`, which must have

    judge(files: dict[str, bytes], request: dict) -> {property: {"facts": N, "differs": None | {...}}}

a pure function of what it is given. `request` is that of the protocol, with one thing added: `earlier`, the looks of
this trial before it, each `{"look": …, "files": … or None if too large to be kept, "history": how many lines}`: those
that this process was asked for, and those that it was told to remember. The harness judges nothing itself. It may not
answer a question with silence: what cannot be judged is answered `{"error": ...}`, which the controller never counts as
a pass.
"""

# No pathlib: it would cost milliseconds of each start, and this is started for every trial.
# ruff: noqa: PTH100, PTH110, PTH118, PTH119, PTH120, PTH123
from __future__ import annotations

import importlib
import json
import os
import sys
import zlib
from collections.abc import Callable
from typing import IO, Any

from verifier import tree

Judge = Callable[[tree.Tree, dict[str, Any]], dict[str, Any]]

LOOKS = ("killed", "recovered", "end")
LINE = 128 << 20  # bytes of one request: a whole volume fits
USAGE = "usage: verify NAME   (judges by the module verifier.NAME; see docs/properties.md)\n"


def main(arguments: list[str]) -> int:
    """Answer requests on standard input until it ends."""
    if arguments == ["--version"]:
        print(version())
        return 0
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.stderr.write(USAGE)
        return 64
    name = arguments[0]
    module = f"verifier.{name}"
    try:
        judge: Judge = importlib.import_module(module).judge
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        sys.stderr.write(f"verify: there is no verifier {name!r}: put {name}.py beside {__file__}\n")
        return 64
    serve(name, judge, os.environ.get("LAB_DATA", "/data"), sys.stdin.buffer, sys.stdout)
    return 0


def serve(name: str, judge: Judge, data: str, requests: IO[bytes], answers: IO[str]) -> None:
    """One answer line for each request line."""
    looks = Looks(judge, data)
    _say(answers, {"verifier": name, "version": version(), "mount": mount_line(data)})
    while line := requests.readline(LINE + 1):
        if len(line) > LINE:
            _say(answers, {"error": f"a request of more than {LINE >> 20} MiB: it was not read, and no further one is"})
            return
        _say(answers, looks.answer(line))


def _say(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


class Looks:
    """The looks of one trial and the trees they saw, as long as these fit `tree.LIMIT` together."""

    def __init__(self, judge: Judge, data: str) -> None:
        self._judge = judge
        self._data = data
        self._earlier: list[dict[str, Any]] = []  # as `judge` is given them
        self._kept: dict[bytes, bytes] = {}  # equal files of several looks are kept once
        self._bytes = 0

    def answer(self, line: bytes) -> dict[str, Any]:
        """Answer one request; every failure is an answer, too."""
        try:
            request = json.loads(line)
            if request["ask"] == "copy":
                return self._copy(request["n"])
            if request["ask"] == "remember":
                return self._remember(request)
            if request["ask"] != "look" or request["look"] not in LOOKS:
                return {"error": f"unknown request {request['ask']!r} {request.get('look')!r}"}
            return self._look(request)
        except Exception as error:  # noqa: BLE001 - the protocol's rule: an answer for everything, never a silent end
            return {"error": f"{type(error).__name__}: {error} {_where(error)}"}

    def _look(self, request: dict[str, Any]) -> dict[str, Any]:
        volume = request.get("volume")
        files = tree.read(self._data) if volume is None else tree.unpack(volume)
        earlier = list(self._earlier)
        self._keep(request["look"], len(request.get("history", ())), files)
        properties = self._judge(files, {**request, "earlier": earlier})
        return {"look": request["look"], "mount": mount_line(self._data), "properties": properties}

    def _remember(self, request: dict[str, Any]) -> dict[str, Any]:
        """Take over a look of a harness before this one, which had to let go of the volume. Nothing is judged."""
        look, lines, volume = request["look"], request["history"], request["volume"]
        if look not in LOOKS or type(lines) is not int or lines < 0:
            return {"error": f"no look that there can have been: {look!r} after {lines!r} lines"}
        self._keep(look, lines, None if volume is None else tree.unpack(volume))
        return {}

    def _keep(self, look: str, lines: int, files: tree.Tree | None) -> None:
        """Append to the looks so far. `files` are None if they were too large to be kept, or are now."""
        size = sum(len(content) for content in (files or {}).values() if content not in self._kept)
        if files is not None and self._bytes + size <= tree.LIMIT:
            self._bytes += size
            files = {path: self._kept.setdefault(content, content) for path, content in files.items()}
        else:
            files = None
        self._earlier.append({"look": look, "files": files, "history": lines})

    def _copy(self, number: int) -> dict[str, Any]:
        if not 1 <= number <= len(self._earlier):
            return {"error": f"there was no look {number}; there were {len(self._earlier)}"}
        files = self._earlier[number - 1]["files"]
        return {"volume": None if files is None else tree.pack(files)}


def mount_line(data: str) -> str:
    """The line of our own mountinfo whose mount point is the data path; the last one lies on top. Empty if none."""
    point = "".join(f"\\{ord(c):03o}" if c in " \t\n\\" else c for c in data)
    found = ""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            if line.split(" ")[4] == point:
                found = line.rstrip("\n")
    return found


def version() -> str:
    """Of our own source, and of the views that an image puts beside it: with others, it is another verifier."""
    views = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "views.toml")
    if not os.path.exists(views):
        return _version_of_source()
    with open(views, "rb") as file:
        return f"{_version_of_source()}+{zlib.crc32(file.read()):08x}"


def _version_of_source() -> str:
    """A digest, as stamped when the image was built; computed where it was not built."""
    package = os.path.dirname(os.path.abspath(__file__))
    stamp = os.path.join(os.path.dirname(package), "VERSION")
    if os.path.exists(stamp):
        with open(stamp, encoding="ascii") as file:
            return file.read().strip()
    import hashlib  # imported here: it costs more than the rest of the start-up

    digest = hashlib.sha256()
    for path, content in sorted(tree.read(package).items()):
        if path.endswith(".py"):
            digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


def _where(error: Exception) -> str:
    """The innermost place of an error, so that one line is enough to find it."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f"({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})"
