"""The script as data, checked when it comes: nothing is sent to a daemon of a script that is not understood."""

from dataclasses import dataclass

from clients import adapters

FORMAT = 2
PAUSE = "pause"  # the client's own: no request
MAX_CLIENTS = 64
MAX_LIVES = 64
MAX_OPS = 10_000  # of a life


class Unfit(Exception):
    """What the controller wrote cannot be done; the message is for a person."""


@dataclass(frozen=True)
class Op:
    step: int
    client: int
    op: str
    args: dict


@dataclass(frozen=True)
class Scenario:
    """What the clients need of it. `lives` has each life's operations; the kills are the controller's."""

    adapter: object  # a module of clients.adapters
    clients: int
    timeout_s: float
    settle_s: float
    lives: tuple[tuple[Op, ...], ...]


def read(script: object) -> Scenario:
    """A scenario of docs/fuzz.md. Raises Unfit."""
    try:
        if script["format"] != FORMAT:
            raise Unfit(f"format {script['format']!r} of a scenario is not known here; this is format {FORMAT}")
        adapter = adapters.find(script["adapter"])
        if adapter is None:
            raise Unfit(f"there is no adapter {script['adapter']!r} in clients/adapters/")
        clients = _whole(script["clients"], "clients", 1, MAX_CLIENTS)
        if len(script["lives"]) > MAX_LIVES:
            raise Unfit(f"more than {MAX_LIVES} lives")
        lives = tuple(tuple(_op(op, adapter, clients) for op in _ops(life)) for life in script["lives"])
        limits = script["limits"]
        return Scenario(adapter, clients, float(limits["timeout_ms"]) / 1000, float(limits["settle_s"]), lives)
    except (KeyError, TypeError, ValueError) as error:
        raise Unfit(f"not a scenario: {type(error).__name__}: {error}") from None


def _ops(life: dict) -> list:
    if len(life["ops"]) > MAX_OPS:
        raise Unfit(f"a life of more than {MAX_OPS} operations")
    return life["ops"]


def _op(given: dict, adapter: object, clients: int) -> Op:
    name, args = given["op"], given["args"]
    step = _whole(given["step"], "step", 1, 2**31)
    if name == PAUSE:
        _whole(args["ms"], f"ms of step {step}", 0, 60_000)
    elif name not in adapter.OPERATIONS:
        raise Unfit(f"the adapter has no operation {name!r}, which step {step} asks for: give it no weight in the plan")
    return Op(step, _whole(given["client"], f"client of step {step}", 1, clients), name, dict(args))


def _whole(value: object, name: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise Unfit(f"{name} is {value!r}; it is a whole number from {least} to {most}")
    return value
