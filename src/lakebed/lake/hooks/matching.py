"""Selection of the actions of an event."""

from collections.abc import Iterable

from lakebed.lake.hooks.events import EventType
from lakebed.lake.hooks.files import ActionFile
from lakebed.lake.hooks.patterns import matches


def select(actions: Iterable[ActionFile], event_type: EventType, branch: str) -> list[ActionFile]:
    """Return the actions that match an event on a branch, in order; tags have no branch."""
    return [action for action in actions if _is_for(action, event_type, branch)]


def _is_for(action: ActionFile, event_type: EventType, branch: str) -> bool:
    patterns = action.events.get(event_type)
    if patterns is None:
        return False
    return not patterns or any(matches(pattern, branch) for pattern in patterns)
