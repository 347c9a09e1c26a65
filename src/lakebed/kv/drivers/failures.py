"""Translation of a library's errors to the outcomes of a store; refusal of unsafe settings."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from lakebed.kv.errors import OutcomeUnknown, StoreUnavailable, StoreUnreachable, UnsafeStore

ResultT = TypeVar("ResultT")


def check_durable(
    found: Mapping[str, str], wanted: Mapping[str, str], *, others: Collection[str] = ()
) -> None:
    """Raise `UnsafeStore` if settings differ from the wanted ones, or for `others` reasons."""
    wrong = [
        f"{name} is {found[name]} and must be {value}"
        for name, value in wanted.items()
        if found[name] != value
    ]
    if wrong := [*wrong, *others]:
        raise UnsafeStore(
            f"the server may lose acknowledged writes: {'; '.join(wrong)}. Change the settings, or"
            " add ?durable=true if the service is durable by other means"
        )


class Failures:
    """Translator of the errors of one library.

    Args:
        database: The database's name, for messages.
        errors: The exceptions of the library.
        was_refused: Whether an exception proves that a write will not be applied.
        was_not_sent: Whether an exception proves that no request was sent.
        explain: Returns the reason of an exception.
    """

    def __init__(
        self,
        database: str,
        errors: tuple[type[Exception], ...],
        *,
        was_refused: Callable[[Any], bool],
        was_not_sent: Callable[[Any], bool],
        explain: Callable[[Any], str] = str,
    ) -> None:
        self._database = database
        self._errors = errors
        self._was_refused = was_refused
        self._was_not_sent = was_not_sent
        self._explain = explain

    def read(self, call: Callable[[], ResultT]) -> ResultT:
        """Run a call that changes nothing; without a reply, raise `StoreUnavailable`."""
        try:
            return call()
        except self._errors as error:
            if self._was_not_sent(error):
                raise self._unreachable(error) from error
            raise StoreUnavailable(
                f"{self._database} did not answer: {self._explain(error)}"
            ) from error

    def of_write(self, error: Exception) -> OutcomeUnknown:
        """Return the exception for a failed write: refused, never sent, or of unknown outcome."""
        reason = self._explain(error)
        if self._was_refused(error):
            return StoreUnavailable(f"{self._database} refused the write: {reason}")
        if self._was_not_sent(error):
            return self._unreachable(error)
        return OutcomeUnknown(f"the outcome of a write to {self._database} is unknown: {reason}")

    def _unreachable(self, error: Exception) -> StoreUnreachable:
        return StoreUnreachable(f"cannot reach {self._database}: {self._explain(error)}")
