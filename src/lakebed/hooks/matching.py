"""Which actions an event is for."""

from collections.abc import Iterable

from lakebed.hooks.events import EventType
from lakebed.hooks.files import Action


def select(actions: Iterable[Action], event_type: EventType, branch: str) -> list[Action]:
    """Return the actions for an event on a branch, in the given order; tags have no branch."""
    raise NotImplementedError
