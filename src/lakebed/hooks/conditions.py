"""The ``if`` of a hook: whether it runs."""


def evaluate(text: str, *, has_failed: bool) -> bool:
    """Return whether a hook runs, given whether a hook of its action failed before.

    `parse_action` has checked the text.
    """
    raise NotImplementedError
