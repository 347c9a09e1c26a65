"""The log of one hook: bounded, without secrets, readable while it is written."""

from typing import Final

from lakebed.runtime import Runtime

OUTPUT_BYTES_MAX: Final = 1 << 20
MASK: Final = "*******"
_CUT: Final = b"\n[the output is cut here: it reached %d bytes]\n"
_SECRET_LENGTH_MIN: Final = 1


class Output:
    """What a hook prints. It may be written and read by several threads.

    A secret is masked wherever it appears in what is written, also if it arrives in pieces: the
    end of the text is held back while it could be the beginning of a secret.
    """

    def __init__(self, runtime: Runtime, *, bytes_max: int = OUTPUT_BYTES_MAX) -> None:
        raise NotImplementedError

    def hide(self, secret: str) -> None:
        """Mask this text in all that is written from now on."""

    def write(self, text: str | bytes) -> None:
        """Add to the log; past the limit nothing is added but one note that it is cut."""

    def print(self, line: str) -> None:
        """Write a line."""

    def content(self) -> bytes:
        """Return what was written so far, masked: at most the limit and the note."""
