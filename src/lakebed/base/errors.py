"""The root of all errors that Lakebed raises on purpose.

Each layer has its own tree below this root, in its ``errors`` module. The HTTP API, the S3 gateway
and the command line each map these errors to responses in a single table.
"""

from typing import ClassVar, Final

INTERNAL: Final = "internal error: see the server's log for the id of this {}"
"""Text for an unexpected error, which may name hosts and folders; `{}` is what has the id."""


class LakebedError(Exception):
    """Error that Lakebed can explain: the message says what was wrong and what to do."""

    kind: ClassVar[str] = "error"
    """Stable name for programs; messages are for people and may change."""

    public_message: str | None = None
    """Message for clients, if the full message may name hosts or folders of the server."""

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel between processes. The default would call the constructor with the message,
        # but most constructors take other arguments.
        return _restore, (type(self), self.args, self.__dict__)


def shown(error: Exception, *, internal: str = "request") -> str:
    """Return the text of an error for clients, the same at every API and in every record.

    `internal` names the subject of the log lines about an error that is not a `LakebedError`.
    """
    if isinstance(error, LakebedError):
        return error.public_message or str(error)
    return INTERNAL.format(internal)


def _restore(
    error_type: type[LakebedError], arguments: tuple[object, ...], state: dict[str, object]
) -> LakebedError:
    error = error_type.__new__(error_type)
    error.args = arguments
    error.__dict__.update(state)
    return error


class NotFoundMixin(KeyError):
    """`KeyError` that shows its message without quotes."""

    def __str__(self) -> str:
        return str(self.args[0])


def quoted(key: bytes) -> str:
    """Return a key as quoted, printable text for messages, even if its bytes are not UTF-8."""
    text = key.decode(errors="backslashreplace")
    if not text.isprintable():
        text = "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
        )
    return f"'{text}'"


class MissingExtraError(LakebedError, ImportError):
    """A driver needs a library from one of Lakebed's optional extras."""

    kind = "missing_extra"

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs an extra: pip install 'lakebed[{extra}]'"
            f" (in a clone: pip install '.[{extra}]')"
        )
        self.extra = extra


class BrokenDriver(LakebedError):
    """The driver of another package cannot be used."""

    kind = "broken_driver"
