"""Acknowledges an append before its transaction begins."""

from sessions import ops
from sessions.driver import Driver

_do = Driver._do


def do(self, op):
    if op["op"] != "append":
        return _do(self, op)
    operation = self.hooks.invoke("append", op)
    self.hooks.complete("append", "ok", operation, {})
    return ops.do(self.store, op)


Driver._do = do
