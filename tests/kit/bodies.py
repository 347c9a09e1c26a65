"""Bodies as a server hands them over: in pieces."""

from itertools import pairwise


class Input:
    """What a server hands over: bytes in the pieces in which they came."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self.largest = 0

    def read(self, size: int) -> bytes:
        self.largest = max(self.largest, size)
        while self._pieces and not self._pieces[0]:
            self._pieces.pop(0)
        if not self._pieces or not size:
            return b""
        piece = self._pieces[0]
        self._pieces[0] = piece[size:]
        return piece[:size]


def pieces_of(content: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(content)) for cut in cuts} | {0, len(content)})
    return [content[a:b] for a, b in pairwise(places)]
