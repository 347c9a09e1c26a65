"""`lakebed identity`, `lakebed usage` and `lakebed doctor`: user, request counts and checks.

Each check of the doctor depends on the previous ones, so the first failure is the last check.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from lakebed import __version__
from lakebed.clients.cli.errors import Incomplete
from lakebed.clients.cli.groups import new_app, new_group
from lakebed.clients.cli.output import Whole
from lakebed.clients.cli.session import Session, client_command
from lakebed.clients.http.errors import ClientError, Refused
from lakebed.wire.config import ConfigAPI

identity_app = new_app()
usage_app = new_group()
doctor_app = new_app()

_UNAUTHORIZED: Final = 401
_SKEW_SECONDS_MAX: Final = 60.0
"""S3 requests are refused if the clocks are 15 minutes apart; warn much earlier."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """Result of a check."""

    check: str
    ok: bool
    found: str
    advice: str = ""
    """How to fix a failure."""


@client_command(identity_app, "identity")
def identity(session: Session) -> None:
    """Show the current user."""
    session.output.record(session.client.auth.current_user().user)


@client_command(usage_app, "summary")
def usage_summary(session: Session) -> None:
    """Show the number of requests the server has handled, by month."""
    report = session.client.config.usage()
    if session.output.as_json:
        session.output.record(report)
        return
    session.output.table(
        report.reports,
        [
            ("Month", lambda item: f"{item.year}-{item.month:02}"),
            ("Requests", lambda item: item.count),
        ],
    )


@client_command(doctor_app, "doctor")
def doctor(session: Session) -> None:
    """Check settings, server, credentials, versions and clocks, and suggest fixes."""
    findings = list(_examined(session))
    session.output.table(
        findings,
        [
            ("Check", lambda item: item.check),
            ("", lambda item: "ok" if item.ok else "FAILED"),
            ("Found", lambda item: Whole(item.found)),
            ("Fix", lambda item: Whole(item.advice)),
        ],
    )
    if not all(finding.ok for finding in findings):
        raise Incomplete("a check failed, see above")


def _examined(session: Session) -> Iterator[DoctorFinding]:
    for check, find in _CHECKS.items():
        try:
            yield DoctorFinding(check, ok=True, found=find(session))
        except ClientError as error:
            yield DoctorFinding(check, ok=False, found=str(error), advice=_advice(check, error))
            return
    yield _clock(session)


def _advice(check: str, error: ClientError) -> str:
    if check == "settings":
        return "set the missing setting"
    if check == "server":
        return "start the server (lakebed quickstart), or correct LAKEBED_ENDPOINT"
    if check == "credentials":
        if not isinstance(error, Refused):
            return "check that the endpoint is a lakeFS server"
        if error.status == _UNAUTHORIZED:
            return (
                "correct LAKEBED_ACCESS_KEY_ID and LAKEBED_SECRET_ACCESS_KEY, or create a new key"
            )
    return "check the log of the server"


def _server(session: Session) -> str:
    session.client.config.health()
    return "it responds"


def _versions(session: Session) -> str:
    server = session.client.config.get().version_config.version or "unknown"
    return f"client {__version__}, server {server}"


_CHECKS: Final[dict[str, Callable[[Session], str]]] = {
    "settings": lambda session: f"endpoint {session.client.endpoint}",
    "server": _server,
    "credentials": lambda session: f"you are {session.client.auth.current_user().user.id}",
    "versions": _versions,
}


def _clock(
    session: Session, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> DoctorFinding:
    date = session.client.ask(ConfigAPI.health.request()).headers.get("Date", "")
    try:
        skew = (now() - parsedate_to_datetime(date)).total_seconds()
    except ValueError:
        return DoctorFinding("clock", ok=True, found="the server does not send its time")
    found = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the server"
    if abs(skew) > _SKEW_SECONDS_MAX:
        advice = "set this computer's clock: signed requests with a wrong time are refused"
        return DoctorFinding("clock", ok=False, found=found, advice=advice)
    return DoctorFinding("clock", ok=True, found=found)
