"""DeleteObjects: up to a thousand keys, with a result for each."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from lakebed.auth import Action
from lakebed.base.errors import LakebedError
from lakebed.engine.model import BranchID
from lakebed.server.http.conditions import if_match
from lakebed.server.s3.errors import S3Error, error_elements
from lakebed.server.s3.request import S3Reply, S3Request, ref_path_of, xml
from lakebed.server.s3.translation import as_s3_error
from lakebed.server.s3.xml_reader import XML_BYTES_MAX, DeleteRequest, read_delete
from lakebed.server.s3.xml_writer import Markup, document, element


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    asked = read_delete(request.body().read(XML_BYTES_MAX))
    failed = _delete(request, asked)
    return xml(document("DeleteResult", *_results(asked.keys, failed, quiet=asked.quiet)))


def _delete(request: S3Request, asked: DeleteRequest) -> dict[str, S3Error]:
    """Delete the permitted keys; return the other keys, with the reasons."""
    failed: dict[str, S3Error] = {}
    by_branch: dict[str, dict[bytes, str | None]] = defaultdict(dict)
    for key in dict.fromkeys(asked.keys):
        try:
            branch, path = ref_path_of(key)
            request.authorize_object(Action.DELETE_OBJECT, path)
        except LakebedError as error:
            failed[key] = as_s3_error(error)
        else:
            by_branch[branch][path] = asked.etags.get(key)
    if by_branch:
        # Only now: the existence of a repository is revealed only to permitted users.
        request.services.catalog.repositories.get(request.repository)
    for branch, etags in by_branch.items():
        for path, reason in _delete_on_branch(request, branch, etags):
            failed[f"{branch}/{path.decode()}"] = as_s3_error(reason)
    return failed


def _delete_on_branch(
    request: S3Request, branch: str, etags: Mapping[bytes, str | None]
) -> Iterator[tuple[bytes, LakebedError]]:
    """Delete paths, each if it has the ETag, if any; yield the failures."""
    objects = request.services.catalog.objects
    paths = list(etags)
    conditions = {path: if_match(etag) for path, etag in etags.items() if etag is not None}
    try:
        failed = objects.delete_many(request.repository, BranchID(branch), paths, conditions)
    except LakebedError as error:  # none of them was deleted
        yield from ((path, error) for path in paths)
    else:
        yield from ((each.path, each.error) for each in failed)


def _results(keys: list[str], failed: dict[str, S3Error], *, quiet: bool) -> Iterator[Markup]:
    for key in keys:
        error = failed.get(key)
        if error is not None:
            yield element("Error", element("Key", key), *error_elements(error))
        elif not quiet:
            yield element("Deleted", element("Key", key))
