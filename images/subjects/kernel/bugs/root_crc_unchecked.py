"""Takes a root for whole without looking at its CRC, so half of a new root over an old one passes."""

import struct

from kernel import pages
from kernel.crc import crc32c

_decode_root = pages.decode_root


def decode_root(page):
    used = min(int.from_bytes(page[12:16], "little"), len(page))
    if used < 8:
        return None
    return _decode_root(page[: used - 4] + struct.pack("<I", crc32c(page[: used - 4])))


pages.decode_root = decode_root
