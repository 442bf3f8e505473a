"""Treats `once` as if the outside deduped it: a dispatched call is sent again without asking."""

from kernel.intents import Intents

Intents._ask_then_send = Intents._send_again
