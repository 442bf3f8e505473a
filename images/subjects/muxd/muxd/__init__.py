"""A session multiplexer daemon: several clients share the chats of agents. What it promises: docs/muxd.md"""
