"""Hooks: what action files ask for before and after operations.

`files` reads action files, `matching` chooses those of an event, `conditions` decides whether a
hook runs, `kinds` runs one hook.
"""
