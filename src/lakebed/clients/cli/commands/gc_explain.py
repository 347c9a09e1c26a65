"""`lakebed gc explain`: why an object or a commit is retained or was deleted."""

from typing import Annotated

import typer

from lakebed.clients.cli.errors import InvalidArguments
from lakebed.clients.cli.output import printable
from lakebed.clients.cli.session import Session
from lakebed.clients.cli.uris import is_uri, parse_path
from lakebed.clients.http.paging import list_items
from lakebed.wire.garbage import ExplainQuery


def explain(
    session: Session,
    what: Annotated[
        str,
        typer.Argument(
            help="Object (lakefs://my-repo/main/a.csv), commit (lakefs://my-repo/v1), or address"
            " in the storage"
        ),
    ],
) -> None:
    """Explain why an object or a commit is retained or was deleted.

    lakebed gc explain lakefs://my-repo/main/folder/file.csv
    """
    if is_uri(what):
        uri = parse_path(what)
        repository, query = uri.repository, ExplainQuery(ref=uri.ref, path=uri.path)
    else:
        repository, query = _repository_of(session, what), ExplainQuery(address=what)
    found = session.client.garbage.explain(repository, query)
    if session.output.as_json:
        session.output.record(found)
        return
    gone = "is deleted" if query.ref and not query.path else "does not exist"
    words = {"kept": "is retained", "going": "is not retained", "gone": gone}
    session.output.done(f"{found.subject} {words[found.verdict]}:")
    for reason in found.reasons:
        print(f"- {printable(reason)}")


def _repository_of(session: Session, address: str) -> str:
    """Return the repository whose storage namespace contains an address."""
    for repository in list_items(session.client.repositories.list):
        if address.startswith(f"{repository.storage_namespace.rstrip('/')}/"):
            return repository.id
    raise InvalidArguments(
        f"{address!r} is neither the URI of an object or commit, such as lakefs://my-repo/main/a,"
        " nor an address in the storage namespace of a repository that you can list"
    )
