"""Names that people write: refs, branches, tags, addresses, URIs, patterns of branches."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from hypothesis import strategies as st

from lakebed.auth.entities.base import check_name
from lakebed.auth.errors import InvalidName as InvalidAuthName
from lakebed.auth.secrets import check_access_key_id, is_access_key_id
from lakebed.block import Address, InvalidAddress, Namespace
from lakebed.clients.cli.commands.fs.names import file_for
from lakebed.clients.cli.errors import InvalidArguments, UnsafeKey
from lakebed.clients.cli.uris import parse_object, parse_path, parse_ref, parse_repository
from lakebed.clients.http.errors import ClientSettingsError
from lakebed.clients.http.settings import normal_endpoint
from lakebed.engine.errors import Invalid, InvalidName
from lakebed.engine.model import check_branch_name, check_repository_name, check_tag_name
from lakebed.engine.refs.protection import _PATTERN
from lakebed.engine.refs.resolve import _parse
from lakebed.formats.object_paths import ObjectPath, partition_made_us
from lakebed.lake.errors import InvalidPath
from lakebed.server.api.request import as_key
from tests.fuzz.inputs import any_text, texts
from tests.fuzz.target import Targets, attempt

targets: Final = Targets()

COMMIT: Final = "0123456789abcdef" * 4
REF_WORDS: Final = [
    "main", "v1.0", COMMIT, "abc", "~", "^", "~2", "^0", "~999999999", "~9999999999", "@", "$", "/",
    ".", "..", "...", ".lock", "a...b", "\0", " ", "\n", "é", "²", "\ud800", "*", "[", "\\", "-",
]  # fmt: skip
names: Final = texts(REF_WORDS, st.sampled_from(["main", "v1.0/rc", "main~2^1", COMMIT]) | any_text)


@targets.add(names)
def ref_expressions(text: str) -> None:
    """What is read can be spelled again, and then means the same."""
    found = attempt(Invalid, _parse, text)
    if found is None:
        return
    base, steps, view = found
    marks = {"combined": "", "committed": "@", "staged": "$"}
    again = base + "".join(f"{kind}{number}" for kind, number in steps) + marks[view.value]
    assert _parse(again) == found
    assert text.startswith(base)


@targets.add(names)
def names_of_refs(text: str) -> None:
    """A name that is accepted fits into keys, paths and expressions."""
    for check in (check_repository_name, check_branch_name, check_tag_name):
        if attempt(InvalidName, check, text) is not None:
            assert "\0" not in text
            assert _parse(text)[0] == text
            text.encode()


@targets.add(names)
def names_of_users(text: str) -> None:
    if attempt(InvalidAuthName, check_name, "user", text) is not None:
        assert "/" not in text
        text.encode()
    assert (attempt(InvalidAuthName, check_access_key_id, text) is None) != bool(
        is_access_key_id(text)
    )


ADDRESS_WORDS: Final = [
    "s3://", "gs://", "local://", "mem://", "https://", "S3://", "LOCAL://", "az://", "://", ":",
    "bucket", "Bucket", "account.blob.core.windows.net", "ACCOUNT.blob.core.windows.net:443",
    "/", "//", "container", "$web", "..", ".", "%20", "?", "#", "@", ":443", "\0", "\ud800", "é",
    "\N{KELVIN SIGN}", "\N{LATIN SMALL LETTER LONG S}", "a" * 255, " ", "\n",
]  # fmt: skip


stores: Final = st.sampled_from(
    ["s3://bucket", "LOCAL://lakes", "gs://b", "mem://a", "https://a.blob.core.windows.net/c"]
)
places: Final = st.tuples(stores, any_text).map("/".join)


@targets.add(texts(ADDRESS_WORDS, places))
def addresses(url: str) -> None:
    """There is one spelling of an address: what is read is spelled and read again as it is."""
    address = attempt(InvalidAddress, Address.parse, url)
    if address is not None:
        assert Address.parse(str(address)) == address
        assert str(address).endswith(address.path)
    namespace = attempt(InvalidAddress, Namespace.parse, url)
    if namespace is not None:
        assert Namespace.parse(str(namespace)) == namespace
        inside = namespace.address("a/../b")
        assert inside in namespace
        assert namespace.relative(inside) == "a/../b"
        assert Address.parse(str(inside)) == inside


URI_WORDS: Final = [
    "lakefs://", "lakebed://", "LAKEFS://", "lake", "main", "/", "//", ".", "..", "~2", "\0", " ",
    "\ud800", "é", "%2F", "?", "#", "\n",
]  # fmt: skip


@targets.add(texts(URI_WORDS, st.tuples(st.just("lakefs://lake/main"), any_text).map("/".join)))
def uris(text: str) -> None:
    """What is read can be written, and is read again as it is."""
    for parse in (parse_repository, parse_ref, parse_path, parse_object):
        found = attempt(InvalidArguments, parse, text)
        if found is not None:
            assert parse(str(found)) == found
            str(found).encode()


ENDPOINT_WORDS: Final = [
    "http://", "https://", "ftp://", "127.0.0.1", "[::1]", "[", "]", ":8000", ":x", ":99999",
    "/api/v1", "/", "?a", "#b", "user:secret@", "é", "\n", " ", "\ud800",
]  # fmt: skip


@targets.add(texts(ENDPOINT_WORDS, st.just("http://127.0.0.1:8000/api/v1/")))
def endpoints(text: str) -> None:
    """The path of the API may be added or left out."""
    found = attempt(ClientSettingsError, normal_endpoint, text)
    if found is not None:
        assert normal_endpoint(f"{found}/api/v1/") == found


PATTERN_WORDS: Final = [
    "main",
    "*",
    "?",
    "[",
    "]",
    "!",
    "-",
    "a",
    "z",
    "[!a-z]",
    "[z-a]",
    "[]",
    "]-",
]


@targets.add(texts(PATTERN_WORDS))
def protection_rules(pattern: str) -> None:
    """Any pattern that is accepted can be compared with any name."""
    if _PATTERN.fullmatch(pattern):
        for branch in ("main", "a" * 255, "-", "]"):
            fnmatchcase(branch, pattern)


UID: Final = "0005f5e100000000" + "0" * 20
PARTITION: Final = "fffa0a1eff000000-000000000000"
OBJECT_PATH: Final = f"repos/{'a' * 32}/branches/main/{PARTITION}/{UID}"


@targets.add(
    texts(
        ["repos/", "/branches/", "main", "/", PARTITION, UID, "fff", "0", "\n", "é"],
        st.just(OBJECT_PATH),
    )
)
def object_paths(path: str) -> None:
    """A path is ours only if it is exactly what we would spell."""
    found = ObjectPath.parse(path)
    if found is not None:
        assert str(found) == path
        assert partition_made_us(found.partition) == found.made_us
        assert found.issued_us >= 0


@targets.add(names)
def keys_of_objects(text: str) -> None:
    key = attempt(InvalidPath, as_key, text)
    if key is not None:
        assert key.decode() == text


@targets.add(texts(["a", "/", "..", ".", "", "\0", "~", "é", "\\", "C:", " ", "-", "\n"]))
def files_of_keys(key: str) -> None:
    """A download never leaves its folder."""
    folder = Path("/folder")
    found = attempt(UnsafeKey, file_for, key, prefix="", folder=folder)
    if found is not None:
        assert found.is_relative_to(folder)
        assert found != folder
        assert ".." not in found.parts
