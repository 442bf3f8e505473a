"""One property a file: `check(case)` compares facts and returns them as a `Check`. Pure; may not raise on any log."""
