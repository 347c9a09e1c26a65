"""The root of every error that Lakebed raises on purpose.

Each layer has its own tree below this root, in its own ``errors`` module. The doors (HTTP, S3,
command line) have one table each, from those errors to what goes over the wire.
"""

from typing import ClassVar


class LakebedError(Exception):
    """Something that Lakebed can explain: the message says what was wrong and what to do."""

    kind: ClassVar[str] = "error"
    """A stable name for programs; the message is for people and may change."""

    public_message: str | None = None
    """What to show to strangers instead of the message, where that may name hosts or folders."""

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel between processes. By default they would be made anew from their message,
        # which is not what most of their constructors take.
        return _restore, (type(self), self.args, self.__dict__)


def _restore(
    error_type: type[LakebedError], arguments: tuple[object, ...], state: dict[str, object]
) -> LakebedError:
    error = error_type.__new__(error_type)
    error.args = arguments
    error.__dict__.update(state)
    return error


class NotFoundMixin(KeyError):
    """A `KeyError` that shows its message as it is; `KeyError` itself would put it in quotes."""

    def __str__(self) -> str:
        return str(self.args[0])


def quoted(key: bytes) -> str:
    """Return a key as it is shown in messages: as text, in quotes, whatever its bytes are."""
    text = key.decode(errors="backslashreplace")
    if not text.isprintable():
        text = "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
        )
    return f"'{text}'"


class MissingExtraError(LakebedError, ImportError):
    """A driver needs a library that is installed only with one of Lakebed's extras."""

    kind = "missing_extra"

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs an extra: pip install 'lakebed[{extra}]'"
            f" (in a clone: pip install '.[{extra}]')"
        )
        self.extra = extra
