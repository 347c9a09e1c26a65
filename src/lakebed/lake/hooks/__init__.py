"""Hooks: action files, and the hooks that they run before and after operations.

Imports `lakebed.engine` and other modules of `lakebed.lake`. Public: `guard.HookGuard`, which the
engine calls, `actions` for the APIs, and `post` for the background process. `files` reads action
files, `matching` chooses those of an event, `conditions` decides whether a hook runs, `kinds` runs
one hook.
"""
