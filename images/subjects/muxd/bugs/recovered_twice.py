"""Two recoveries at once: both read what waits before either has taken it, and both queue it."""

from threading import Barrier, Lock, Thread

from muxd import main

_recover = main.recover


def recover(home_folder, reach):
    home, chats = _recover(home_folder, reach)
    both_have_read, taking = Barrier(2), Lock()

    def queue_what_waits():
        waiting = {chat.name: chat.state.queue for chat in chats}
        both_have_read.wait()
        with taking:
            for chat in chats:
                queued = chat.state.queue if chat.name in taken else ()
                taken.add(chat.name)
                chat.change(chat.state.change(queue=(*queued, *waiting[chat.name])))

    taken = set()
    recoveries = [Thread(target=queue_what_waits) for _ in range(2)]
    for recovery in recoveries:
        recovery.start()
    for recovery in recoveries:
        recovery.join()
    return home, chats


main.recover = recover
