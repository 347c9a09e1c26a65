"""Hooks: action files, and the hooks that they run before and after operations.

Imports `lakebed.engine` and other modules of `lakebed.lake`. Public: `guard.HookGuard`, called by
the engine; `actions`, for the APIs; and `post`, for the background process. `files` reads action
files, `matching` selects the actions of an event, `conditions` evaluates ``if``, and `kinds` runs a
hook.
"""
