"""The driver around hermes-agent's own `SessionDB` and delivery ledger. It adds nothing to what they do.

records   hooks, barrier and history: what the lab hears
provider  the messaging platform, which is the lab's effect ledger
store     the package, entered without its agent and its platforms
gateway   what its gateway does at start-up and around a send, call by call
ops       the ops of docs/cells.md
race      the processes that race each other
main      run, recover, race
"""
