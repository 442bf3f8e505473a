"""A start: take the home, and bring whatever a crash left to a state that can be served. Blocks: nobody is served."""

from muxd import files, homelock
from muxd.chatfiles import ChatFiles
from muxd.chats import Chats
from muxd.chatstate import UNKNOWN
from muxd.errors import CorruptError
from muxd.files import Reach
from muxd.home import Home, HomeState
from muxd.journal import Journal


def recover(home_folder: str, reach: Reach) -> tuple[Home, Chats]:
    """The home, locked and consistent. Raises HomeInUse or CorruptError."""
    homelock.take(home_folder)
    reach("start.locked")
    files.remove_strays(home_folder, lambda name: name.endswith(files.UNFINISHED), reach)
    chat_files = ChatFiles(home_folder, reach)
    journal = Journal(home_folder, reach)
    if not journal.records:
        _begin(home_folder, journal, chat_files)
    home = Home(journal)
    reach("start.journal-read")
    chat_files.remove_unlisted(set(home.durable.chats.values()))
    _end_cut_turns(home, chat_files, reach)
    chats = Chats(home, chat_files, reach)
    reach("start.chats-loaded")
    return home, chats


def _begin(home_folder, journal, chat_files):
    """A new home. One that has chats and no journal has lost it: to go on would throw them away."""
    if chat_files.numbers():
        raise CorruptError(f"{home_folder}: there are chats and no journal that lists them; restore a copy")
    journal.compact(HomeState().snapshot())


def _end_cut_turns(home, chat_files, reach):
    """A turn that ran at the crash has an unknown outcome: its agent may have done anything. It never runs again."""
    for number in home.durable.chats.values():
        version, state = chat_files.load(number)
        if state.running is not None:
            reach("recovery.turn-cut")
            chat_files.save(number, version + 1, state.end(UNKNOWN))
            reach("recovery.turn-unknown")
