"""After a start the list shows the chats of the journal, and behind them those whose files were found."""

from muxd.chats import Chats

_init, _names = Chats.__init__, Chats.names


def init(self, home, files, reach):
    _init(self, home, files, reach)
    self.found = [name for name, number in home.durable.chats.items() if number in files.numbers()]


def names(self):
    return _names(self) + self.found


Chats.__init__, Chats.names = init, names
