"""The clients of the fuzz campaign: they execute a scenario against a daemon and record what happens. No judging."""
