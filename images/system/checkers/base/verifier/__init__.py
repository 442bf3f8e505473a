"""Judges what a subject left behind, from its documented format alone. Imports nothing of any subject.

`main` is the harness that speaks the protocol; a module beside it with a function `judge` is a verifier.
"""
