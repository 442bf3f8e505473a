"""Loop devices: a file as a block device. They are few and global to the machine: take one, give it back.

No device that this process did not attach is ever touched.

A device is marked AUTOCLEAR and its descriptor is kept: it frees itself when the last user (this descriptor, a mount)
is gone, so that not even a SIGKILL leaks one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DEVICES = Path("/dev-lab")  # a tmpfs of this container that allows device nodes; the host's /dev is not here
SYS_BLOCK = Path("/sys/block")
CONTROL = os.makedev(10, 237)
LOOP_CTL_GET_FREE = 0x4C82  # the numbers and structs of linux/loop.h, the same on every architecture
LOOP_CONFIGURE = 0x4C0A
LO_FLAGS_AUTOCLEAR = 4
TRIES = 64  # another lab may take the device that was just found free
POLL_S = 0.0005


class Busy(Exception):
    """A device is still in use, or none can be had; the message says which."""


@dataclass(frozen=True)
class Loop:
    """An attached loop device. `fd` keeps it."""

    number: int
    fd: int
    backing: str
    filesystem: str  # on it

    @property
    def device(self) -> str:
        """Its path in the engine's /dev; this container has no such file."""
        return f"/dev/loop{self.number}"

    @property
    def node(self) -> str:
        """Its path in this container."""
        return str(DEVICES / f"loop{self.number}")

    def detach(self, timeout_s: float = 3.0) -> None:
        """Give it back. Waits until no mount uses it (an unmount may return 130 ms before its superblock dies) and it
        is free; raises Busy if that takes too long. Even then it frees itself with its last user.
        """
        until = time.monotonic() + timeout_s
        try:
            self._wait(
                lambda: not Path(f"/sys/fs/{self.filesystem}/loop{self.number}").exists(), until, "is still mounted"
            )
        finally:
            os.close(self.fd)
        self._wait(lambda: self.backing not in _backing_file(self.number), until, "is still held open")

    def _wait(self, done: Callable[[], bool], until: float, what: str) -> None:
        while not done():
            if time.monotonic() > until:
                raise Busy(f"{self.device} {what}; remove the containers and the volume that use it first")
            time.sleep(POLL_S)


def attach(image: Path, filesystem: str) -> Loop:
    """Attach a file to a free loop device. `image` must have a name that no other file on this machine has."""
    control = _open_node("loop-control", stat.S_IFCHR, CONTROL)
    backing = os.open(image, os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(TRIES):
            number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
            try:
                fd = _open_node(f"loop{number}", stat.S_IFBLK, _device_number(number))
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENXIO):
                    continue  # removed since
                raise
            try:
                fcntl.ioctl(fd, LOOP_CONFIGURE, _config(backing, image))
                return Loop(number, fd, image.name, filesystem)
            except OSError as error:
                os.close(fd)
                if error.errno != errno.EBUSY:
                    raise
        raise Busy(f"no free loop device in {TRIES} tries: other programs take them as fast")
    finally:
        os.close(backing)
        os.close(control)


def _open_node(name: str, kind: int, device: int) -> int:
    path = DEVICES / name
    if not path.exists():
        os.mknod(path, kind | 0o600, device)
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def _device_number(number: int) -> int:
    """From sysfs: with partitions enabled, minor and loop number differ."""
    major, minor = (SYS_BLOCK / f"loop{number}" / "dev").read_text().split(":")
    return os.makedev(int(major), int(minor))


def _config(backing: int, image: Path) -> bytes:
    """struct loop_config: fd, block size, struct loop_info64 (232 bytes), 64 reserved bytes."""
    info = bytearray(232)
    struct.pack_into("=I", info, 52, LO_FLAGS_AUTOCLEAR)
    name = str(image).encode()[:63]
    info[56 : 56 + len(name)] = name
    return struct.pack("=II", backing, 0) + bytes(info) + bytes(64)


def _backing_file(number: int) -> str:
    try:
        return (SYS_BLOCK / f"loop{number}" / "loop" / "backing_file").read_text()
    except OSError:
        return ""
