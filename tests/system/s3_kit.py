"""Uploads in parts, checksums and metadata as S3 clients see them, for the tests of the gateway."""

import hashlib
import zlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError

from tests.kit.s3_gateway import Client, Gateway

LAKE = "lake"


FIRST = b"1" * (5 << 20)


LAST = b"end"


def code_of(caught: pytest.ExceptionInfo[ClientError]) -> str:
    code: str = caught.value.response["Error"]["Code"]
    return code


def begin(s3: Client, key: str, **options: Any) -> dict[str, str]:
    upload_id = s3.create_multipart_upload(Bucket=LAKE, Key=key, **options)["UploadId"]
    return {"Bucket": LAKE, "Key": key, "UploadId": upload_id}


def send(s3: Client, upload: dict[str, str], number: int, body: bytes) -> dict[str, object]:
    etag = s3.upload_part(**upload, PartNumber=number, Body=body)["ETag"]
    assert etag.strip('"') == hashlib.md5(body).hexdigest()
    return {"PartNumber": number, "ETag": etag}


def complete(s3: Client, upload: dict[str, str], *parts: dict[str, object], **options: Any) -> str:
    answer = s3.complete_multipart_upload(
        **upload, MultipartUpload={"Parts": list(parts)}, **options
    )
    etag: str = answer["ETag"]
    return etag.strip('"')


def where(name: str) -> dict[str, str]:
    return {"Bucket": LAKE, "Key": f"main/{name}"}


def checksums(found: dict[str, Any]) -> dict[str, str]:
    return {name: found[name] for name in found if name.startswith("Checksum")}


def kept(s3: Client, name: str) -> dict[str, str]:
    """Return what the gateway shows of the checksum of an object."""
    return checksums(s3.head_object(**where(name), ChecksumMode="ENABLED"))


def crc32(body: bytes) -> str:
    return b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


def of_crc32(body: bytes) -> dict[str, str]:
    return {"ChecksumCRC32": crc32(body), "ChecksumType": "FULL_OBJECT"}


def ask_api(gateway: Gateway, method: str, path: str, **options: Any) -> httpx.Response:
    answer = httpx.request(
        method,
        f"{gateway.url}/api/v1/repositories/lake/{path}",
        auth=(gateway.access_key, gateway.secret_key),
        **options,
        timeout=60,
    )
    assert answer.is_success, answer.text
    return answer


def damage(gateway: Gateway, name: str) -> None:
    """Change one byte of an object where it lies on the disk."""
    answer = ask_api(gateway, "GET", "refs/main/objects/stat", params={"path": name})
    inside = answer.json()["physical_address"].removeprefix("local://")
    (file,) = (each for each in gateway.served.folder.rglob(Path(inside).name) if each.is_file())
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.chmod(0o600)
    file.write_bytes(data)


def metadata_by_api(gateway: Gateway, path: str) -> dict[str, str]:
    answer = httpx.get(
        f"{gateway.url}/api/v1/repositories/lake/refs/main/objects/stat",
        params={"path": path},
        auth=(gateway.access_key, gateway.secret_key),
        timeout=60,
    )
    metadata: dict[str, str] = answer.json()["metadata"]
    return metadata
