"""A turn that was running at the crash goes back to the head of its queue, and runs a second time."""

from muxd import recovery


def end_cut_turns(home, chat_files, reach):
    for number in home.durable.chats.values():
        version, state = chat_files.load(number)
        if state.running is not None:
            again = ((state.running, "reply 1"), *state.queue)
            chat_files.save(number, version + 1, state.change(running=None, queue=again))


recovery._end_cut_turns = end_cut_turns
