"""The log of one hook: bounded, with secrets masked, readable while written."""

import base64
import json
import re
from typing import Final
from urllib.parse import quote, quote_plus

from lakebed.base.runtime import Runtime

OUTPUT_BYTES_MAX: Final = 1 << 20
MASK: Final = "*******"
SECRET_LENGTH_MIN: Final = 4
"""Shorter texts are not masked: they would match everywhere."""


class HookOutput:
    """Output of a hook. Threads can write and read it concurrently.

    Secrets are masked wherever they appear, even if written in pieces: the end of the text is
    buffered while it could be the beginning of a secret, until `flush`.
    """

    def __init__(self, runtime: Runtime, *, bytes_max: int = OUTPUT_BYTES_MAX) -> None:
        self._lock = runtime.lock()
        self._bytes_max = bytes_max
        self._secrets: list[bytes] = []
        self._pattern: re.Pattern[bytes] | None = None
        self._shown = bytearray()
        self._pending = b""
        self._is_cut = False

    def hide(self, secret: str) -> None:
        """Mask a secret in all later output, also quoted or in Base64."""
        if len(secret) < SECRET_LENGTH_MIN:
            return
        raw = secret.encode(errors="surrogateescape")
        forms = {
            raw,
            json.dumps(secret)[1:-1].encode(),
            json.dumps(secret, ensure_ascii=False)[1:-1].encode(errors="surrogateescape"),
            quote(raw, safe="").encode(),
            quote(raw).encode(),
            quote_plus(raw).encode(),
            base64.b64encode(raw),
        }
        with self._lock:
            # Longest first: a secret may begin with another.
            self._secrets = sorted({*self._secrets, *forms}, key=lambda form: (-len(form), form))
            self._pattern = re.compile(b"|".join(map(re.escape, self._secrets)))

    def write(self, text: str | bytes) -> None:
        """Append to the log; beyond the limit, only add a note that the log is truncated."""
        added = text.encode(errors="surrogateescape") if isinstance(text, str) else text
        with self._lock:
            if self._is_cut:
                return
            whole = self._pending + added
            end = self._certain(whole)
            self._pending = whole[end:]
            self._show(self._mask(whole[:end]))

    def print(self, line: str) -> None:
        self.write(line + "\n")

    def flush(self) -> None:
        """Write out the buffered end; call this after the last write."""
        with self._lock:
            pending, self._pending = self._pending, b""
            self._show(self._mask(pending))

    def content(self) -> bytes:
        """Return the output so far, masked: at most the limit and the note."""
        with self._lock:
            return bytes(self._shown)

    def masked(self, text: str) -> str:
        with self._lock:
            raw = self._mask(text.encode(errors="surrogateescape"))
        return raw.decode(errors="replace")

    def _mask(self, text: bytes) -> bytes:
        return self._pattern.sub(MASK.encode(), text) if self._pattern else text

    def _certain(self, text: bytes) -> int:
        """Return the end of the part that no later text can turn into a part of a secret."""
        if self._pattern is None:
            return len(text)
        done = 0
        end = len(text) - len(self._secrets[0])
        for found in self._pattern.finditer(text):
            # A longer secret may begin here or earlier, but only near the end of the text.
            if found.start() > end and self._beginning(text, done) <= found.start():
                break
            done = found.end()
        return self._beginning(text, done)

    def _beginning(self, text: bytes, start: int) -> int:
        """Return the first position from which the rest could be the beginning of a secret."""
        longest = len(self._secrets[0])
        for place in range(max(start, len(text) - longest + 1), len(text)):
            rest = text[place:]
            if any(len(secret) > len(rest) and secret.startswith(rest) for secret in self._secrets):
                return place
        return len(text)

    def _show(self, text: bytes) -> None:
        if self._is_cut:
            return
        available = self._bytes_max - len(self._shown)
        self._shown += text[:available]
        if len(text) > available:
            self._is_cut = True
            self._shown += (
                f"\n[truncated: the output has more than {self._bytes_max} bytes]\n".encode()
            )
