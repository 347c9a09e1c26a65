"""PostObject: an object in a form; see `lakebed.server.s3.posted`."""

import re
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from lakebed.server.s3.operations import put_object
from lakebed.server.s3.request import S3Reply, S3Request
from lakebed.server.s3.xml_writer import XML_TYPE, document, element

_STATUSES: Final = {"200": HTTPStatus.OK, "201": HTTPStatus.CREATED}
_URL: Final = re.compile(r"https?://[!-~]+")


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    fields = request.form
    put = put_object.handle(request).headers
    etag = put["ETag"]
    url = fields.get("success_action_redirect") or fields.get("redirect") or ""
    bucket, key = request.route.bucket, request.route.key
    if _URL.fullmatch(url):
        query = urlencode({"bucket": bucket, "key": key, "etag": etag})
        location = f"{url}{'&' if '?' in url else '?'}{query}"
        return S3Reply(HTTPStatus.SEE_OTHER, {**put, "Location": location})
    headers = {**put, "Location": request.url}
    status = _STATUSES.get(fields.get("success_action_status", ""), HTTPStatus.NO_CONTENT)
    if status is not HTTPStatus.CREATED:
        return S3Reply(status, headers)
    body = document(
        "PostResponse",
        element("Location", request.url),
        element("Bucket", bucket),
        element("Key", key),
        element("ETag", etag),
    )
    return S3Reply(status, {**headers, "Content-Type": XML_TYPE}, body)
