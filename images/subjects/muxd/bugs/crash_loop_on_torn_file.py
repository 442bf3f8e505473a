"""A start takes a save that the kill cut for a chat, finds it damaged, and ends: so does the next one."""

import os

from muxd.chatfiles import ChatFiles
from muxd.errors import CorruptError
from muxd.files import UNFINISHED

_remove_unlisted = ChatFiles.remove_unlisted


def remove_unlisted(self, listed):
    for name in os.listdir(self._folder):
        if name.endswith(UNFINISHED):
            raise CorruptError(f"{self._folder}/{name}: not a chat; restore a copy")
    _remove_unlisted(self, listed)


ChatFiles.remove_unlisted = remove_unlisted
