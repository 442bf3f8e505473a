"""Judges a notes store by its format alone: /data/notes, one note a line, "ID TEXT\\n".

Started by `verify notes`: the harness around it reads the volume, keeps copies and speaks the protocol.
"""

from verifier.finding import Check


def judge(files, request):
    """`files` is {path: bytes} of the volume; `request` is one look, as docs/protocol.md has it."""
    look, history = request["look"], request["history"]
    asked = [*_notes(request["prepared"]["workload"]), *_notes(request["workload"])]
    *lines, tail = files.get("notes", b"").split(b"\n")
    return {
        "acknowledged-durable": _acknowledged(lines, asked, request["prepared"], history),
        "only-whole-notes": _only_whole(lines, tail, asked, look),
        "complete": _complete(lines, asked, look),
    }


def _notes(workload):
    return [f"{note['id']} {note['text']}".encode() for note in workload["notes"]]


def _acknowledged(lines, asked, prepared, history):
    """Every note of the prepared state, and every one that was answered `ok`, is there."""
    check = Check()
    answered = [note["id"] for note in prepared["workload"]["notes"]]
    answered += [event["note"] for event in history if event.get("type") == "ok"]
    by_id = {int(line.split(b" ")[0]): line for line in asked}
    for ident in answered:
        check.holds(by_id[ident] in lines, f"note {ident}", "a line", "none", "it was acknowledged")
    return check.answer()


def _only_whole(lines, tail, asked, look):
    """Every line is a note that was asked for, none is there twice, and only a crash leaves a torn one."""
    check = Check()
    for number, line in enumerate(lines, 1):
        check.holds(line in asked, f"line {number}", "a note that was asked for", str(line[:80]), "nobody wrote this")
        check.same(f"line {number}, times", 1, lines.count(line), "no note may be there twice")
    if look == "killed":
        begun = any(line.startswith(tail) for line in asked)
        check.holds(begun, "the last line", "the beginning of a note", str(tail[:80]), "nobody wrote this")
    else:
        check.same("the torn last line", "", str(tail[:80], "utf-8", "replace"), "recovery cuts it")
    return check.answer()


def _complete(lines, asked, look):
    """At the end the store is exactly what the script says, in its order."""
    check = Check()
    for number, line in enumerate(asked) if look == "end" else ():
        found = lines[number] if number < len(lines) else b""
        check.same(f"line {number + 1}", str(line[:80]), str(found[:80]), "every note is added in the end")
    return check.answer()
