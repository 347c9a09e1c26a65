from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.router import S3Operation, S3Route, is_s3_request, route
from tests.server.s3.kit import environ_of

DOMAIN = "s3.local.lakefs.io"


def routed(method: str, url: str, **headers: str) -> S3Route:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return route(environ_of(method, url, sent), domain=DOMAIN)


@pytest.mark.parametrize(
    ("method", "target", "operation"),
    [
        ("GET", "/", S3Operation.LIST_BUCKETS),
        ("GET", "/?x-id=ListBuckets", S3Operation.LIST_BUCKETS),
        ("HEAD", "/repo", S3Operation.HEAD_BUCKET),
        ("PUT", "/repo", S3Operation.CREATE_BUCKET),
        ("GET", "/repo?location", S3Operation.GET_BUCKET_LOCATION),
        ("GET", "/repo?versioning=", S3Operation.GET_BUCKET_VERSIONING),
        ("GET", "/repo?versions&prefix=main/", S3Operation.LIST_OBJECT_VERSIONS),
        ("GET", "/repo/main/a?acl&versionId=1", S3Operation.GET_OBJECT_ACL),
        ("GET", "/repo?acl", S3Operation.GET_BUCKET_ACL),
        ("GET", "/repo", S3Operation.LIST_OBJECTS),
        ("GET", "/repo/?prefix=main/&delimiter=/", S3Operation.LIST_OBJECTS),
        ("GET", "/repo/?list-type=2&prefix=main/", S3Operation.LIST_OBJECTS_V2),
        ("GET", "/repo?uploads", S3Operation.LIST_MULTIPART_UPLOADS),
        ("GET", "/repo?accelerate", S3Operation.GET_BUCKET_ACCELERATE),
        ("GET", "/repo?encryption", S3Operation.GET_BUCKET_ENCRYPTION),
        ("GET", "/repo?logging", S3Operation.GET_BUCKET_LOGGING),
        ("GET", "/repo?notification", S3Operation.GET_BUCKET_NOTIFICATION),
        ("GET", "/repo?requestPayment", S3Operation.GET_BUCKET_REQUEST_PAYMENT),
        ("PUT", "/repo?acl", S3Operation.PUT_BUCKET_ACL),
        ("POST", "/repo", S3Operation.POST_OBJECT),
        ("POST", "/repo?delete", S3Operation.DELETE_OBJECTS),
        ("GET", "/repo/main/a", S3Operation.GET_OBJECT),
        ("GET", "/repo/main/a?x-id=GetObject", S3Operation.GET_OBJECT),
        ("GET", "/repo/main/a?partNumber=1", S3Operation.GET_OBJECT),
        ("HEAD", "/repo/main/a", S3Operation.HEAD_OBJECT),
        ("PUT", "/repo/main/a", S3Operation.PUT_OBJECT),
        ("DELETE", "/repo/main/a", S3Operation.DELETE_OBJECT),
        ("GET", "/repo/main/a?tagging", S3Operation.GET_OBJECT_TAGGING),
        ("PUT", "/repo/main/a?tagging", S3Operation.PUT_OBJECT_TAGGING),
        ("DELETE", "/repo/main/a?tagging", S3Operation.DELETE_OBJECT_TAGGING),
        ("GET", "/repo/main/a?acl", S3Operation.GET_OBJECT_ACL),
        ("PUT", "/repo/main/a?acl", S3Operation.PUT_OBJECT_ACL),
        ("POST", "/repo/main/a?uploads", S3Operation.CREATE_MULTIPART_UPLOAD),
        ("PUT", "/repo/main/a?partNumber=1&uploadId=u", S3Operation.UPLOAD_PART),
        ("POST", "/repo/main/a?uploadId=u", S3Operation.COMPLETE_MULTIPART_UPLOAD),
        ("DELETE", "/repo/main/a?uploadId=u", S3Operation.ABORT_MULTIPART_UPLOAD),
        ("GET", "/repo/main/a?uploadId=u", S3Operation.LIST_PARTS),
    ],
)
def test_the_operations(method: str, target: str, operation: S3Operation) -> None:
    assert routed(method, f"http://localhost:8000{target}").operation is operation


def test_a_copy_names_its_source() -> None:
    source = "/repo/main/b"
    copy = routed("PUT", "http://h/repo/main/a", x_amz_copy_source=source)
    part = routed("PUT", "http://h/repo/main/a?uploadId=u&partNumber=1", x_amz_copy_source=source)
    assert copy.operation is S3Operation.COPY_OBJECT
    assert part.operation is S3Operation.UPLOAD_PART_COPY
    assert routed("GET", "http://h/repo/a", x_amz_copy_source=source).operation is (
        S3Operation.GET_OBJECT
    )


@pytest.mark.parametrize(
    ("host", "path", "bucket", "key"),
    [
        ("localhost:8000", "/repo/main/a%20b%2Bc//d", "repo", "main/a b+c//d"),
        (DOMAIN, "/repo/main/a", "repo", "main/a"),
        (f"{DOMAIN}:8000", "/repo", "repo", ""),
        (f"repo.{DOMAIN}:8000", "/main/a", "repo", "main/a"),
        (f"Repo.{DOMAIN.upper()}", "/", "repo", ""),
        (f"repo.{DOMAIN}", "//a", "repo", "/a"),
        (f"not{DOMAIN}", "/repo/k", "repo", "k"),
        ("127.0.0.1", "/repo//a", "repo", "/a"),
        ("127.0.0.1", "/repo/%C3%BC/", "repo", "ü/"),
        ("127.0.0.1", "/repo/../a", "repo", "../a"),
    ],
)
def test_a_bucket_stands_in_the_path_or_in_the_host(
    host: str, path: str, bucket: str, key: str
) -> None:
    found = routed("GET", f"http://{host}{path}")
    assert (found.bucket, found.key) == (bucket, key)


def test_parameters_are_decoded() -> None:
    found = routed("GET", "http://h/repo?prefix=main/a+b%2B%C3%BC&delimiter=")
    assert found.query == {"prefix": "main/a b+ü", "delimiter": ""}


@pytest.mark.parametrize(
    ("method", "target", "code"),
    [
        ("POST", "/", ErrorCode.METHOD_NOT_ALLOWED),
        ("DELETE", "/repo", ErrorCode.NOT_SUPPORTED),
        ("PATCH", "/repo", ErrorCode.METHOD_NOT_ALLOWED),
        ("POST", "/repo/main/a", ErrorCode.METHOD_NOT_ALLOWED),
        ("PATCH", "/repo/main/a", ErrorCode.METHOD_NOT_ALLOWED),
        ("GET", "/repo?policy", ErrorCode.NO_SUCH_BUCKET_POLICY),
        ("GET", "/repo?tagging", ErrorCode.NO_SUCH_TAG_SET),
        ("PUT", "/repo?policy", ErrorCode.NOT_SUPPORTED),
        ("PUT", "/repo?tagging", ErrorCode.NOT_SUPPORTED),
        ("PUT", "/repo?versioning", ErrorCode.NOT_SUPPORTED),
        ("PUT", "/repo/main/a?versionId=1", ErrorCode.NOT_SUPPORTED),
        ("POST", "/repo/main/a?uploads&versionId=1", ErrorCode.NOT_SUPPORTED),
        ("GET", "/repo?versions&versionId=1", ErrorCode.NOT_SUPPORTED),
        ("POST", "/repo/main/a?select&select-type=2", ErrorCode.NOT_SUPPORTED),
        ("GET", "/repo?acl&policy", ErrorCode.INVALID_ARGUMENT),
        ("GET", "/repo?prefix=a&prefix=b", ErrorCode.INVALID_ARGUMENT),
        ("GET", "/repo/%FF", ErrorCode.INVALID_URI),
        ("GET", "/repo/a%00b", ErrorCode.INVALID_URI),
        ("GET", "/repo?prefix=%FF", ErrorCode.INVALID_URI),
        ("GET", "/repo?prefix=%00", ErrorCode.INVALID_URI),
        ("GET", "/repo?" + "&".join(f"a{n}" for n in range(101)), ErrorCode.INVALID_URI),
    ],
)
def test_requests_that_are_not_operations_are_refused(
    method: str, target: str, code: ErrorCode
) -> None:
    with pytest.raises(S3Error) as caught:
        routed(method, f"http://h{target}")
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("url", "authorization", "is_ours"),
    [
        ("http://localhost/", "AWS4-HMAC-SHA256 Credential=x", True),
        ("http://localhost/", "AWS AKIA:x", True),
        ("http://localhost/a?X-Amz-Algorithm=x", "", True),
        ("http://localhost/a?b=c&X-Amz-Signature=x", "", True),
        ("http://localhost/a?AWSAccessKeyId=x&Signature=y", "", True),
        (f"http://{DOMAIN}/", "", True),
        (f"http://repo.{DOMAIN}:8000/", "", True),
        ("http://localhost/api/v1/repositories", "Basic QUtJQTpz", False),
        ("http://localhost/api/v1/repositories", "Bearer AWS", False),
        ("http://localhost/api/v1/x?prefix=X-Amz-Signature", "", False),
        ("http://localhost/", "", False),
        (f"http://not{DOMAIN}/", "", False),
    ],
)
def test_requests_for_the_gateway(url: str, authorization: str, is_ours: bool) -> None:
    headers = {"authorization": authorization} if authorization else {}
    assert is_s3_request(environ_of("GET", url, headers), domain=DOMAIN) is is_ours


latin = st.text(st.characters(max_codepoint=255))


@given(st.sampled_from(["GET", "PUT", "POST", "DELETE", "x"]), latin, latin, latin)
def test_any_request_is_routed_or_refused_with_an_s3_error(
    method: str, path: str, query: str, host: str
) -> None:
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "HTTP_HOST": host,
    }
    is_s3_request(environ, domain=DOMAIN)
    try:
        route(environ, domain=DOMAIN)
    except S3Error:
        return
