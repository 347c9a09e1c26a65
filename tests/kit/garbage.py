"""Collecting garbage in a program of several threads."""

import gc
import threading
import time

_PATIENCE_SECONDS = 60.0
_OLDEST = 2


def collect_garbage() -> None:
    """Collect all that is garbage now.

    ``gc.collect`` does nothing and says nothing while another thread collects, which may have
    looked at this garbage before it was some.
    """
    own = threading.get_ident()
    collected: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == _OLDEST and threading.get_ident() == own:
            collected.append(_OLDEST)

    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    gc.callbacks.append(note)
    try:
        while not collected:
            assert time.monotonic() < give_up_at, "other threads collect all the time"
            gc.collect()
            time.sleep(0)  # lets the thread go on that is at it
    finally:
        gc.callbacks.remove(note)
