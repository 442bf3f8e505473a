"""Chats and what is set in them, each a register: is it there, its draft, watches, title, mode, unread mark,
decisions.

Properties: `chats-durable`, `drafts-durable`, `watches-durable`, `settings-kept`.

A chat that is "no such chat" holds nothing: what was acknowledged in it is lost with it, and says so in each
property. A prompt from a client's own connection shows the chat, which clears its unread mark; one that is sent
again may do so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from verifier.fuzz.history import CHECK, OK, Request, Story, cut
from verifier.fuzz.registers import Mismatch, Register
from verifier.fuzz.shapes import CHATS, DRAFTS, NO_SUCH_CHAT, SETTINGS, WATCHES, Checks, brief

EXISTS, DRAFT, WATCH, TITLE, MODE, UNREAD, DECISION = "there", "draft", "watch", "title", "mode", "unread", "decision"
INITIAL: dict[str, Any] = {
    EXISTS: False, DRAFT: None, WATCH: False, TITLE: None, MODE: None, UNREAD: False, DECISION: None,
}  # fmt: skip
PROPERTY = {
    EXISTS: CHATS, DRAFT: DRAFTS, WATCH: WATCHES, TITLE: SETTINGS, MODE: SETTINGS, UNREAD: SETTINGS, DECISION: SETTINGS,
}  # fmt: skip


class Key(NamedTuple):
    kind: str
    chat: str
    detail: str = ""  # the path of a watch, the prompt of a decision


class Chats:
    """Judges each answer that says something of a chat; they come in the order in which they ended."""

    def __init__(self, story: Story, checks: Checks) -> None:
        self._checks = checks
        self._registers: dict[Key, Register] = {}
        self._details: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)  # kind, chat: those ever set
        self.checked = 0  # drafts that somebody had set, read by a check
        sent: set[tuple[str, str]] = set()
        for request in story.requests:
            for key, value in _writes(request):
                self._register(key).write(value, request)
            if request.op == "prompt/send":
                self._shows_chat(request, sent)

    def hear(self, request: Request, fields: dict[str, Any]) -> None:
        """Judge one answer, of which `fields` are well-shaped."""
        if request.op == "chat/list" and "chats" in fields:
            self._list(request, fields["chats"])
        elif request.code == NO_SUCH_CHAT and "chat" in request.args:
            self._read(request, Key(EXISTS, request.args["chat"]), False)
        elif request.op == "chat/read" and request.outcome == OK:
            self._read(request, Key(EXISTS, request.args["chat"]), True)
        if request.op == "chat/read":
            self._chat(request, request.args["chat"], fields)

    def _shows_chat(self, request: Request, sent: set[tuple[str, str]]) -> None:
        """Only the first send of a prompt must clear the mark: what a second one does is nowhere promised."""
        prompt = (request.args["chat"], request.args["prompt"])
        register = self._register(Key(UNREAD, request.args["chat"]))
        (register.may_write if prompt in sent else register.write)(False, request)
        sent.add(prompt)

    def _list(self, request: Request, chats: list[str]) -> None:
        asked = self._details[EXISTS, ""]
        for chat, times in Counter(chats).items():
            why = f"chat {cut(chat)} is listed {times} times, {request.where}"
            self._checks[CHATS].same(f"{request.who} chat={cut(chat)}", 1, times, why)
        for chat in dict.fromkeys([*asked, *chats]):
            self._read(request, Key(EXISTS, chat), chat in chats)

    def _chat(self, request: Request, chat: str, fields: dict[str, Any]) -> None:
        if "draft" in fields:
            self.checked += request.step == CHECK and self._register(Key(DRAFT, chat)).written(request.end)
            self._read(request, Key(DRAFT, chat), fields["draft"])
        if "watches" in fields:
            paths = Counter(fields["watches"])
            for path in dict.fromkeys([*self._details[WATCH, chat], *paths]):
                self._read(request, Key(WATCH, chat, path), path in paths)
            for path, times in paths.items():
                why = f"{cut(path)} is watched {times} times in chat {cut(chat)}, {request.where}"
                self._checks[WATCHES].same(f"{request.who} path={cut(path)}", 1, times, why)
        for kind in (TITLE, MODE, UNREAD):
            if kind in fields:
                self._read(request, Key(kind, chat), fields[kind])
        if "decisions" in fields:
            for prompt in dict.fromkeys([*self._details[DECISION, chat], *fields["decisions"]]):
                self._read(request, Key(DECISION, chat, prompt), fields["decisions"].get(prompt))

    def _read(self, request: Request, key: Key, value: Any) -> None:
        mismatch = self._register(key).read(value, request.begin, request.end)
        check = self._checks[PROPERTY[key.kind]]
        if mismatch is None:
            check.facts += 1
        else:
            expected = " or ".join(map(brief, mismatch.expected)) or "nothing"
            fact, why = _fact(request, key, mismatch), _why(request, key, value, mismatch)
            check.holds(False, fact, expected, brief(value), why)

    def _register(self, key: Key) -> Register:
        if key not in self._registers:
            self._registers[key] = Register(INITIAL[key.kind])
            if key.kind == EXISTS:
                self._details[EXISTS, ""][key.chat] = None
            else:
                self._details[key.kind, key.chat][key.detail] = None
        return self._registers[key]


def _writes(request: Request) -> Iterator[tuple[Key, Any]]:
    """The register that a request writes, and the value."""
    op, args = request.op, request.args
    if op == "chat/new":
        yield Key(EXISTS, args["chat"]), True
    elif op == "draft/set":
        yield Key(DRAFT, args["chat"]), args["text"]
    elif op in ("watch/add", "watch/rm"):
        yield Key(WATCH, args["chat"], args["path"]), op == "watch/add"
    elif op == "chat/rename":
        yield Key(TITLE, args["chat"]), args["title"]
    elif op == "chat/set_mode":
        yield Key(MODE, args["chat"]), args["mode"]
    elif op == "chat/mark_unread":
        yield Key(UNREAD, args["chat"]), True
    elif op == "permission/decide":
        yield Key(DECISION, args["chat"], args["prompt"]), args["allow"]


def _fact(request: Request, key: Key, mismatch: Mismatch) -> str:
    """Named by the write that is missed, or by the reading where there is none."""
    detail = f" of {cut(key.detail)}" if key.detail else ""
    asked = mismatch.missed or request
    chat = "" if "chat" in asked.args else f" chat={cut(key.chat)}"
    return f"{asked.who}{chat} {key.kind}{detail}"


def _why(request: Request, key: Key, value: Any, mismatch: Mismatch) -> str:
    chat = f"chat {cut(key.chat)}"
    what = chat if key.kind == EXISTS else f"{key.kind} {cut(key.detail)}".rstrip() + f" of {chat}"
    found = brief(value) if key.kind not in (EXISTS, WATCH) else "there" if value else "not there"
    return f"{what} is {found}, read {request.where}: {mismatch.why}"
