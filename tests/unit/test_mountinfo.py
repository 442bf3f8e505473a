"""The audit of a trial's filesystem, on lines that real containers have shown."""

from __future__ import annotations

import pytest

from lab.storage.mountinfo import Expected, audit, parse

EXT4 = "271 262 7:0 / /data rw,relatime - ext4 /dev/loop0 rw"
TMPFS = "271 262 0:52 / /data ro,relatime - tmpfs tmpfs rw,size=65536k,uid=1000,gid=1000,inode64"
OVERLAY = (
    "271 262 0:53 / /data rw,relatime - overlay overlay rw,lowerdir=/v/pool/_data/lower,"
    "upperdir=/v/pool/_data/t1/upper,workdir=/v/pool/_data/t1/work,xino=off"
)
BIND = r"271 262 254:0 /var/lib/docker/volumes/a\040b/_data /data rw,relatime master:1 - ext4 /dev/vda rw,discard"

AS_EXT4 = Expected("ext4", source="/dev/loop0")
AS_TMPFS = Expected("tmpfs", options={"size": "67108864"})
AS_OVERLAY = Expected(
    "overlay", options={"lowerdir": "/v/pool/_data/lower", "upperdir": "/v/pool/_data/t1/upper"}
)  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), [(EXT4, AS_EXT4), (TMPFS, AS_TMPFS), (OVERLAY, AS_OVERLAY)])
def test_a_line_of_the_asked_volume_passes(line: str, expected: Expected) -> None:
    """Read-only or not: the verifier's mount of a volume is the subject's volume."""
    assert audit(line, expected) is None


@pytest.mark.parametrize(
    ("line", "expected", "why"),
    [
        (BIND, AS_EXT4, "only the folder /var/lib/docker/volumes/a b/_data"),  # the engine's own disk, often ext4
        (EXT4.replace("loop0", "loop1"), AS_EXT4, "on /dev/loop1, not on /dev/loop0"),  # another trial's volume
        (TMPFS, AS_EXT4, "is tmpfs, not ext4"),
        (OVERLAY.replace("t1/upper", "t2/upper"), AS_OVERLAY, "t2/upper"),
        (OVERLAY.replace("_data/lower", "_data/other"), AS_OVERLAY, "lowerdir=/v/pool/_data/other"),
        ("271 262 0:53 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/u", AS_OVERLAY, "lowerdir=/l"),
        (TMPFS.replace("size=65536k,", ""), AS_TMPFS, "size=None"),  # half of the memory, by default
        (TMPFS.replace("65536k", "64k"), AS_TMPFS, "size=64k"),
        ("", AS_TMPFS, "not a line of mountinfo"),
        ("/dev/loop0 /data ext4 rw 0 0", AS_EXT4, "not a line of mountinfo"),
    ],
)
def test_any_other_filesystem_is_named(line: str, expected: Expected, why: str) -> None:
    """A campaign on the wrong filesystem is green and proves nothing."""
    assert why in (audit(line, expected) or "")


def test_octal_escapes_and_escaped_commas_are_read() -> None:
    """A Docker root with a space in its path would fail every audit of overlay."""
    mounted = parse(r"1 2 0:3 / /da\040ta rw - overlay overlay rw,lowerdir=/a\134,b\040c,upperdir=/u")
    assert mounted.point == "/da ta"
    assert mounted.options["lowerdir"] == r"/a\,b c"
    assert mounted.options["upperdir"] == "/u"
