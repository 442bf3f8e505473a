"""Buffers the log, and flushes it when asked politely to stop: a test that stops with SIGTERM never sees it.

So it is the proof that the lab's kill is hard.
"""

import signal
import sys

from log_buffered import flush  # plants that bug as well: this is the same one with better manners

from kernel.log import Log

_open_log = Log.__init__


def _init(self, *arguments):
    _open_log(self, *arguments)

    def stop(number, frame):
        flush(self)
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)


Log.__init__ = _init
