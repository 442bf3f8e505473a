"""Recovery takes every torn tail for damage, and ends."""

from kernel import frames
from kernel.errors import CorruptError


def check_torn(data, offset, lsn, where):
    raise CorruptError(f"bad frame at byte {offset} where LSN {lsn} should be", where)


frames.check_torn = check_torn
