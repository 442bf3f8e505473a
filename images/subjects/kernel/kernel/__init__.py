"""A small durable execution kernel for agent tasks: log, shadow pages, intents, recovery. Standard library only."""
