"""Collecting garbage in a program of several threads."""

import gc
import threading
import time

_PATIENCE_SECONDS = 60.0
_OLDEST = 2


def collect_garbage() -> None:
    """Collect all that is garbage now.

    ``gc.collect`` returns at once, without an error, while another thread collects. That thread may
    have looked at these objects when they were still in use.
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
            time.sleep(0)  # lets the thread that collects go on
    finally:
        gc.callbacks.remove(note)
