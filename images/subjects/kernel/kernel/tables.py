"""The four tables in memory: the fold of the log. The log is the truth, these rows follow from it and nothing else."""

from kernel import states
from kernel.errors import CorruptError

NAMES = ("attempts", "intents", "effects", "cursor")
ATTEMPTS, INTENTS, EFFECTS, CURSOR = range(4)


class Tables:
    """Rows by table and key, the LSN they stand at, and which keys changed since `changed` was last emptied."""

    def __init__(self):
        self.rows: tuple[dict, dict, dict, dict] = ({}, {}, {}, {})
        self.changed: tuple[set, set, set, set] = (set(), set(), set(), set())
        self.lsn = 0

    @property
    def attempts(self) -> dict:
        return self.rows[ATTEMPTS]

    @property
    def intents(self) -> dict:
        return self.rows[INTENTS]

    @property
    def cursor(self) -> dict:
        return self.rows[CURSOR]

    def put(self, table: int, key: str, row: dict) -> None:
        """Set a row to a new value. Rows are never changed in place."""
        self.rows[table][key] = row
        self.changed[table].add(key)


def attempt_key(task: int, attempt: int) -> str:
    """The key of an attempt's row."""
    return f"{task}/{attempt}"


def fold(tables: Tables, lsn: int, record: dict) -> None:
    """Apply the record `lsn` to the rows. Raises CorruptError if it does not follow from them."""
    where = f"record {lsn}"
    if lsn != tables.lsn + 1:
        raise CorruptError(f"the tables stand at LSN {tables.lsn}", where)
    _FOLDS[record["r"]](tables, lsn, record, where)
    tables.lsn = lsn


def _fold_attempt(tables, lsn, record, where):
    task, attempt, to = record["task"], record["try"], record["to"]
    key = attempt_key(task, attempt)
    _follow("attempt", tables.attempts.get(key), record, where)
    tables.put(ATTEMPTS, key, {"task": task, "try": attempt, "state": to, "lsn": lsn})
    if to == "created":
        tables.put(CURSOR, str(task), {"try": attempt, "step": 0, "clock": 0, "lsn": lsn})


def _fold_intent(tables, lsn, record, where):
    effect, to = record["effect"], record["to"]
    old = tables.intents.get(effect)
    _follow("intent", old, record, where)
    if old is None:
        old = {name: record[name] for name in ("task", "step", "tool", "class", "args")} | {"token": None}
    token = lsn if to == "dispatched" else old["token"]
    tables.put(INTENTS, effect, old | {"state": to, "token": token, "lsn": lsn})
    if to == "applied":
        tables.put(EFFECTS, effect, {"receipt": record["receipt"], "lsn": lsn})


def _fold_cursor(tables, lsn, record, where):
    row = {"try": record["try"], "step": record["step"], "clock": record["clock"], "lsn": lsn}
    tables.put(CURSOR, str(record["task"]), row)


_FOLDS = {"attempt": _fold_attempt, "intent": _fold_intent, "cursor": _fold_cursor}


def _follow(kind, old, record, where):
    before = old and old["state"]
    if record["from"] != before:
        raise CorruptError(f"goes from {record['from']}, but the {kind} is {before}", where)
    if not states.legal(kind, before, record["to"]):
        raise CorruptError(f"no {kind} may go from {before or 'nothing'} to {record['to']}", where)
