"""The chats' files: one a chat, replaced whole at each save, with a version that only goes up. Its calls block."""

import os

from muxd import chatstate, files
from muxd.chatstate import ChatState
from muxd.errors import CorruptError
from muxd.files import Reach
from muxd.frames import HEAD_BYTES, frame, frame_at


class ChatFiles:
    """The folder of a home's chats. A file is named by the chat's number, which the journal lists."""

    def __init__(self, home: str, reach: Reach):
        self._folder = f"{home}/chats"
        self._reach = reach
        self._versions: dict[int, int] = {}  # number -> the version on disk
        if not os.path.isdir(self._folder):
            os.mkdir(self._folder)
            files.sync_folder(home)

    def numbers(self) -> list[int]:
        """Of the files that are there, finished ones only."""
        return sorted(int(name) for name in os.listdir(self._folder) if name.isdigit())

    def remove_unlisted(self, listed: set[int]) -> None:
        """Remove unfinished files, and those of chats whose creation was cut: no answer was given for them."""
        files.remove_strays(self._folder, lambda name: not name.isdigit() or int(name) not in listed, self._reach)

    def load(self, number: int) -> tuple[int, ChatState]:
        """Version and state. Raises CorruptError."""
        path = f"{self._folder}/{number}"
        try:
            data = files.read_file(path)
        except FileNotFoundError:
            raise CorruptError(f"{path}: the journal lists it and it is not there; restore a copy") from None
        good = frame_at(data, 0)
        if good is None or HEAD_BYTES + len(good[1]) != len(data):
            raise CorruptError(f"{path}: not one good frame, though it was whole when it got its name; restore a copy")
        version, payload = good
        self._versions[number] = version
        return version, chatstate.decode(payload)

    def save(self, number: int, version: int, state: ChatState) -> None:
        """Make a chat's state durable. One call at a time for a chat; what is on disk never gets older."""
        if version <= self._versions.get(number, 0):
            raise AssertionError(f"chat {number}: version {version} would replace {self._versions[number]}")
        files.publish(self._folder, str(number), frame(version, chatstate.encode(state)), self._reach, "chat")
        self._versions[number] = version
