"""A session store of an agent runtime on SQLite, and the driver through which the lab works it."""
