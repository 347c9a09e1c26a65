"""Answers that are given again, as long as nothing has changed.

Clients ask the same things again and again: does this object exist, what is at this path, is there
such a branch. The answer follows from what is asked, who asks, and what is in the store. So a
worker keeps answers, each with the *edition* of the store that was read before anything else was
(`lakebed.kv.Store.edition`). When the same bytes come from the same address again, and the edition
is the same, nothing was written since, by whatever process: the answer is still the right one, at
the moment of that look. To look takes microseconds where the database is a file of this machine.
Other databases have no edition, and nothing is kept. Nor is what is asked for the first time: most
of that never comes again, and to keep it costs more than to look at it.

What a process knows of users may be some seconds older than the store (`AuthSettings`). An answer
is not kept for longer than that is: see `AuthService.sure_until`. But what this process changes
counts at once. An answer may be made when the change is in the store already, and its edition is
the new one, while what was known before is not forgotten yet. So an answer from before a change of
this process is not given again after it: see `AuthService.changes`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from lakebed.lru import LRU
from lakebed.runtime import Runtime
from lakebed.server.http.request import QUESTION, Repeatable, RequestRecord, current_record

BYTES_MAX: Final = 32 << 20
"""How much a worker keeps."""
ANSWER_BYTES_MAX: Final = 512 << 10
_OVERHEAD_BYTES: Final = 1024
"""What an answer takes beside its body and its question, roughly."""

_ASKED_MAX: Final = 1 << 14
"""How many questions are known that came before, at most."""
_SUCCESSES: Final = ("200 ", "204 ")

Question = tuple[bytes, bytes, str]
"""The headers, the target and the address of the client."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """An answer, and what it hangs on."""

    holds: Repeatable
    status: str
    headers: list[tuple[str, str]]
    body: list[bytes]
    operation: str
    user: str


class RepeatedAnswers:
    """An application that keeps answers of another one."""

    def __init__(
        self,
        app: WSGIApplication,
        runtime: Runtime,
        *,
        edition: Callable[[], int | None],
        changes: Callable[[], int],
        count: Callable[[], None],
    ) -> None:
        """Make the application.

        Args:
            app: Answers what is not kept, and says in the record of a request whether that may be.
            runtime: The one that the clock of users and permissions is from.
            edition: That of the store.
            changes: How often this process has changed users and permissions.
            count: Called for each answer that is given again to somebody who is signed in.
        """
        self._app = app
        self._monotonic = runtime.monotonic
        self._edition = edition
        self._changes = changes
        self._count = count
        self._kept: LRU[Question, _Kept] = LRU(runtime, cost_max=BYTES_MAX)
        self._asked = [0] * _ASKED_MAX
        """Hashes of questions that came lately. One that has the place of another takes it over."""

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        question: Question | None = environ.get(QUESTION)
        record = current_record()
        if question is None or record is None:
            return self._app(environ, start_response)
        kept = self._kept.get(question)
        if kept is None and not self._was_asked(question):
            del environ[QUESTION]  # so no operation works out how long its answer would hold
            return self._app(environ, start_response)
        if kept is None or not self._holds(kept.holds):
            return self._ask(environ, start_response, record, question)
        record.operation, record.user = kept.operation, kept.user
        if kept.user:
            self._count()
        start_response(kept.status, kept.headers)
        return kept.body.copy()

    def _was_asked(self, question: Question) -> bool:
        """Whether a question came before, lately; from now on, it did."""
        number = hash(question)
        place = number % _ASKED_MAX
        known, self._asked[place] = self._asked[place], number
        return known == number

    def _holds(self, repeatable: Repeatable) -> bool:
        edition, until, changes = repeatable
        return self._monotonic() < until and (
            edition is None or (changes == self._changes() and edition == self._edition())
        )

    def _ask(
        self,
        environ: WSGIEnvironment,
        start_response: StartResponse,
        record: RequestRecord,
        question: Question,
    ) -> Iterable[bytes]:
        """Answer a request, and keep the answer if it may be given again."""
        head: tuple[str, list[tuple[str, str]]] = ("", [])

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Any:
            nonlocal head
            head = (status, headers)
            return start_response(status, headers, exc_info)

        answer = self._app(environ, start)
        if record.repeatable and head[0].startswith(_SUCCESSES) and isinstance(answer, list):
            cost = sum(map(len, answer)) + sum(map(len, question)) + _OVERHEAD_BYTES
            if cost <= ANSWER_BYTES_MAX:
                kept = _Kept(
                    record.repeatable,
                    *head,
                    answer.copy(),
                    operation=record.operation,
                    user=record.user,
                )
                self._kept.put(question, kept, cost=cost)
        return answer
