"""S3 clients that people have, each as it copies a folder: to a prefix, back, and away."""

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import quote

import obstore
import s3fs
from boto3.s3.transfer import TransferConfig
from minio import Minio
from minio.deleteobjects import DeleteObject
from obstore.store import S3Store
from pyarrow import fs as arrow_fs

from tests.kit.s3_gateway import Gateway

PART_BYTES: Final = 5 << 20
"""Larger files go in parts of this size, with clients that can be told."""

CLIENTS: Final = Path(__file__).parents[2] / ".envs/clients/bin"
"""Programs that neither pip nor npm brings: ``make .envs/clients/bin/mc`` and so on."""

_THREADS: Final = 8


def httpfs(version: str) -> str:
    """Return the file of DuckDB's HTTP extension, from a package that few versions have."""
    extensions = files("duckdb_extension_httpfs") / "extensions"
    return str(extensions / f"v{version}" / "httpfs.duckdb_extension")


class Tool(ABC):
    """A client; prefixes are keys without a slash at the end."""

    key_bytes_max = 1024 + len("main/")
    """Of the longest key on the branch main: Lakebed counts the path alone."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.bucket = gateway.repository

    @abstractmethod
    def upload(self, folder: Path, prefix: str) -> None:
        """Copy all files of a folder to keys below a prefix."""

    @abstractmethod
    def download(self, prefix: str, folder: Path) -> None:
        """Copy all keys below a prefix to files of a folder."""

    @abstractmethod
    def remove(self, prefix: str) -> None:
        """Delete all keys below a prefix."""

    def upload_file(self, file: Path, key: str) -> None:
        """Copy one file to a key that may be no path of a file; for clients that can."""
        raise NotImplementedError

    def read(self, key: str) -> bytes:
        """Return what is at such a key."""
        raise NotImplementedError

    def run(
        self, program: str | Path, *arguments: str, stdin: str = os.devnull, **environment: str
    ) -> str:
        """Run a program of the environment that the tests run in; return what it says.

        `stdin` is the path of a file.
        """
        path = Path(sys.executable).parent / program
        assert path.exists(), f"{path} is missing: make install and make test-all install clients"
        with Path(stdin).open("rb") as source:
            result = subprocess.run(
                [path, *arguments],
                stdin=source,
                # A request that has to be repeated is one that we failed.
                env={
                    **os.environ,
                    **self.gateway.environment,
                    "AWS_MAX_ATTEMPTS": "1",
                    **environment,
                },
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
            )
        assert result.returncode == 0, result.stderr
        return result.stdout


def _files(folder: Path) -> list[tuple[str, Path]]:
    """The files of a folder, by their names in it."""
    return [(str(file.relative_to(folder)), file) for file in folder.rglob("*") if file.is_file()]


def _all(function: Callable[..., Any], *arguments: Iterable[Any]) -> None:
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(function, *arguments))


def _target(folder: Path, prefix: str, key: str) -> Path:
    target = folder / key.removeprefix(f"{prefix}/")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


class Boto3(Tool):
    """The SDK of Python, with its default settings."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway)
        self._client = gateway.client(max_pool_connections=_THREADS)
        self._config = TransferConfig(
            multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, max_concurrency=4
        )

    def upload(self, folder: Path, prefix: str) -> None:
        def send(item: tuple[str, Path]) -> None:
            name, file = item
            self._client.upload_file(
                str(file), self.bucket, f"{prefix}/{name}", Config=self._config
            )

        _all(send, _files(folder))

    def download(self, prefix: str, folder: Path) -> None:
        def fetch(key: str) -> None:
            self._client.download_file(self.bucket, key, str(_target(folder, prefix, key)))

        _all(fetch, self._keys(prefix))

    def remove(self, prefix: str) -> None:
        keys = self._keys(prefix)
        for at in range(0, len(keys), 1000):
            objects = [{"Key": key} for key in keys[at : at + 1000]]
            answer = self._client.delete_objects(Bucket=self.bucket, Delete={"Objects": objects})
            assert "Errors" not in answer

    def upload_file(self, file: Path, key: str) -> None:
        self._client.upload_file(str(file), self.bucket, key)

    def read(self, key: str) -> bytes:
        body: bytes = self._client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body

    def _keys(self, prefix: str) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"{prefix}/"
        )
        return [item["Key"] for page in pages for item in page.get("Contents", [])]


class AwsCli(Tool):
    """The command line of AWS."""

    def upload(self, folder: Path, prefix: str) -> None:
        self.run("aws", "s3", "sync", "--quiet", str(folder), f"s3://{self.bucket}/{prefix}/")

    def download(self, prefix: str, folder: Path) -> None:
        self.run("aws", "s3", "sync", "--quiet", f"s3://{self.bucket}/{prefix}/", str(folder))

    def remove(self, prefix: str) -> None:
        self.run("aws", "s3", "rm", "--quiet", "--recursive", f"s3://{self.bucket}/{prefix}/")

    def upload_file(self, file: Path, key: str) -> None:
        where = ["--bucket", self.bucket, "--key", key]
        self.run("aws", "s3api", "put-object", *where, "--body", str(file))

    def read(self, key: str) -> bytes:
        return self.run("aws", "s3", "cp", "--quiet", f"s3://{self.bucket}/{key}", "-").encode()


class S3fs(Tool):
    """The file system of fsspec, which pandas and Dask use."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway)
        self._fs = s3fs.S3FileSystem(
            key=gateway.access_key,
            secret=gateway.secret_key,
            endpoint_url=gateway.url,
            client_kwargs={"region_name": gateway.region},
            default_block_size=PART_BYTES,
            skip_instance_cache=True,
            use_listings_cache=False,
        )

    def upload(self, folder: Path, prefix: str) -> None:
        self._fs.put(f"{folder}/", f"{self.bucket}/{prefix}/", recursive=True)

    def download(self, prefix: str, folder: Path) -> None:
        self._fs.get(f"{self.bucket}/{prefix}/", f"{folder}/", recursive=True)

    def remove(self, prefix: str) -> None:
        self._fs.rm(f"{self.bucket}/{prefix}", recursive=True)

    def upload_file(self, file: Path, key: str) -> None:
        self._fs.pipe_file(f"{self.bucket}/{key}", file.read_bytes())

    def read(self, key: str) -> bytes:
        content: bytes = self._fs.cat_file(f"{self.bucket}/{key}")
        return content


class Arrow(Tool):
    """The file system of Arrow, on the SDK of C++."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway)
        self._fs = arrow_fs.S3FileSystem(
            access_key=gateway.access_key,
            secret_key=gateway.secret_key,
            endpoint_override=gateway.url,
            region=gateway.region,
        )

    def upload(self, folder: Path, prefix: str) -> None:
        arrow_fs.copy_files(
            str(folder),
            f"{self.bucket}/{prefix}",
            source_filesystem=arrow_fs.LocalFileSystem(),
            destination_filesystem=self._fs,
        )

    def download(self, prefix: str, folder: Path) -> None:
        arrow_fs.copy_files(
            f"{self.bucket}/{prefix}",
            str(folder),
            source_filesystem=self._fs,
            destination_filesystem=arrow_fs.LocalFileSystem(),
        )

    def remove(self, prefix: str) -> None:
        self._fs.delete_dir(f"{self.bucket}/{prefix}")


class Obstore(Tool):
    """The object store of Rust, which Polars, DataFusion and others use."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway)
        self._store = S3Store(
            self.bucket,
            endpoint=gateway.url,
            access_key_id=gateway.access_key,
            secret_access_key=gateway.secret_key,
            region=gateway.region,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )

    def upload(self, folder: Path, prefix: str) -> None:
        def send(item: tuple[str, Path]) -> None:
            name, file = item
            obstore.put(self._store, f"{prefix}/{name}", file, chunk_size=PART_BYTES)

        _all(send, _files(folder))

    def download(self, prefix: str, folder: Path) -> None:
        def fetch(key: str) -> None:
            with _target(folder, prefix, key).open("wb") as file:
                for chunk in obstore.get(self._store, key):
                    file.write(chunk)

        _all(fetch, self._keys(prefix))

    def remove(self, prefix: str) -> None:
        obstore.delete(self._store, self._keys(prefix))

    def _keys(self, prefix: str) -> list[str]:
        return [item["path"] for page in obstore.list(self._store, prefix) for item in page]


class MinioPy(Tool):
    """The SDK of MinIO for Python."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway)
        self._client = Minio(
            gateway.endpoint,
            access_key=gateway.access_key,
            secret_key=gateway.secret_key,
            secure=False,
        )

    def upload(self, folder: Path, prefix: str) -> None:
        def send(item: tuple[str, Path]) -> None:
            name, file = item
            self._client.fput_object(
                self.bucket, f"{prefix}/{name}", str(file), part_size=PART_BYTES
            )

        _all(send, _files(folder))

    def download(self, prefix: str, folder: Path) -> None:
        def fetch(key: str) -> None:
            self._client.fget_object(self.bucket, key, str(_target(folder, prefix, key)))

        _all(fetch, self._keys(prefix))

    def remove(self, prefix: str) -> None:
        keys = [DeleteObject(key) for key in self._keys(prefix)]
        assert list(self._client.remove_objects(self.bucket, keys)) == []

    def upload_file(self, file: Path, key: str) -> None:
        self._client.fput_object(self.bucket, key, str(file))

    def read(self, key: str) -> bytes:
        with self._client.get_object(self.bucket, key) as answer:
            content: bytes = answer.read()
        return content

    def _keys(self, prefix: str) -> list[str]:
        found = self._client.list_objects(self.bucket, prefix=f"{prefix}/", recursive=True)
        return [item.object_name for item in found if item.object_name]


class Rclone(Tool):
    """The program rclone."""

    def __init__(self, gateway: Gateway, **variables: str) -> None:
        """Prepare it; `variables` are more of those that it looks at."""
        super().__init__(gateway)
        self._variables = variables

    def upload(self, folder: Path, prefix: str) -> None:
        parts = ["--s3-chunk-size=5M", "--s3-upload-cutoff=5M"]
        self.rclone("copy", *parts, str(folder), f"lake:{self.bucket}/{prefix}")
        self.rclone("check", "--download", str(folder), f"lake:{self.bucket}/{prefix}")

    def download(self, prefix: str, folder: Path) -> None:
        self.rclone("sync", f"lake:{self.bucket}/{prefix}", str(folder))

    def remove(self, prefix: str) -> None:
        self.rclone("delete", f"lake:{self.bucket}/{prefix}")

    def rclone(self, *arguments: str) -> str:
        """Run a command; return what it says."""
        return self.run(
            "rclone",
            "--config=/dev/null",
            *arguments,
            RCLONE_CONFIG_LAKE_TYPE="s3",
            RCLONE_CONFIG_LAKE_PROVIDER="Other",
            RCLONE_CONFIG_LAKE_ENDPOINT=self.gateway.url,
            RCLONE_CONFIG_LAKE_ENV_AUTH="true",
            **self._variables,
        )


class S3cmd(Tool):
    """The program s3cmd."""

    def upload(self, folder: Path, prefix: str) -> None:
        self.s3cmd("sync", f"{folder}/", f"s3://{self.bucket}/{prefix}/")

    def download(self, prefix: str, folder: Path) -> None:
        self.s3cmd("sync", f"s3://{self.bucket}/{prefix}/", f"{folder}/")

    def remove(self, prefix: str) -> None:
        self.s3cmd("del", "--recursive", "--force", f"s3://{self.bucket}/{prefix}/")

    def s3cmd(self, *arguments: str) -> str:
        """Run a command; return what it says."""
        return self.run(
            "s3cmd",
            "--config=/dev/null",
            "--no-ssl",
            f"--host={self.gateway.endpoint}",
            f"--host-bucket={self.gateway.endpoint}",
            f"--region={self.gateway.region}",
            "--multipart-chunk-size-mb=5",
            *arguments,
        )


class Mc(Tool):
    """MinIO's client, on its SDK for Go."""

    key_bytes_max = 1024

    def upload(self, folder: Path, prefix: str) -> None:
        self.mc("mirror", f"{folder}", f"lake/{self.bucket}/{prefix}")

    def download(self, prefix: str, folder: Path) -> None:
        self.mc("mirror", f"lake/{self.bucket}/{prefix}", f"{folder}")

    def remove(self, prefix: str) -> None:
        self.mc("rm", "--recursive", "--force", f"lake/{self.bucket}/{prefix}/")

    def mc(self, *arguments: str, stdin: str = os.devnull) -> str:
        """Run a command; return what it says."""
        keys = f"{self.gateway.access_key}:{quote(self.gateway.secret_key, safe='')}"
        with TemporaryDirectory() as folder:
            return self.run(
                CLIENTS / "mc",
                f"--config-dir={folder}",
                *arguments,
                stdin=stdin,
                MC_HOST_lake=f"http://{keys}@{self.gateway.endpoint}",
            )


TOOLS: Final[dict[str, type[Tool]]] = {
    "boto3": Boto3,
    "aws-cli": AwsCli,
    "s3fs": S3fs,
    "pyarrow": Arrow,
    "obstore": Obstore,
    "minio": MinioPy,
    "rclone": Rclone,
    "s3cmd": S3cmd,
}

EXTENDED_TOOLS: Final[dict[str, type[Tool]]] = {"mc": Mc}
"""Clients that only ``make test-all`` fetches."""
