"""A turn is owned by the process id that began it; a start that finds a process of that id leaves the turn to it.

In a restarted container that is the daemon itself, so the turn runs for ever and nothing behind it is taken up.
"""

import os

from muxd import recovery
from muxd.chatstate import UNKNOWN
from muxd.turns import Turns

_turn, _wake = Turns._turn, Turns.wake


async def turn(self, chat):
    with open(f"{os.environ.get('MUXD_HOME', '/data')}/owner.{chat.number}", "w") as file:
        file.write(str(os.getpid()))
    await _turn(self, chat)


def end_cut_turns(home, chat_files, reach):
    for number in home.durable.chats.values():
        version, state = chat_files.load(number)
        if state.running is not None and not is_alive(number):
            chat_files.save(number, version + 1, state.end(UNKNOWN))


def is_alive(number):
    with open(f"{os.environ.get('MUXD_HOME', '/data')}/owner.{number}") as file:
        owner = int(file.read())
    try:
        os.kill(owner, 0)
    except ProcessLookupError:
        return False
    return True


def wake(self, chat):
    if chat.state.running is None or chat.name in self._working:
        _wake(self, chat)


Turns._turn, Turns.wake, recovery._end_cut_turns = turn, wake, end_cut_turns
