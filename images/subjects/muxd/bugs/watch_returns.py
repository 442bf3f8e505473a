"""Compaction brings back the watches that were removed since the one before."""

from muxd.home import HomeState

_apply, _snapshot = HomeState.apply, HomeState.snapshot


def apply(self, record):
    _apply(self, record)
    if record["do"] == "unwatch":
        self.__dict__.setdefault("gone", []).append((record["chat"], record["path"]))


def snapshot(self):
    record = _snapshot(self)
    for chat, path in self.__dict__.pop("gone", []):
        if path not in record["watches"].setdefault(chat, []):
            record["watches"][chat].append(path)
    return record


HomeState.apply, HomeState.snapshot = apply, snapshot
