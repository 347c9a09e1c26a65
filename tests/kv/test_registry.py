import sys

import pytest

from lakebed.errors import LakebedError, MissingExtraError
from lakebed.kv import InvalidArgument, open_store


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("redis://localhost", "cannot open redis: use memory://, sqlite://, postgresql://"),
        ("lakebed.db", "without a scheme"),
        ("memory://name", "no name"),
    ],
)
def test_a_url_that_nobody_serves_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        open_store(url)


@pytest.mark.parametrize("secret", ["s3cr\u2100et", "s3cr[et", "s3cr et%"])
def test_a_url_that_cannot_be_read_does_not_show_its_password(secret: str) -> None:
    with pytest.raises(LakebedError) as caught:
        open_store(f"postgresql://user:{secret}@127.0.0.1:1/db")
    assert "s3cr" not in str(caught.value)


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    # None in sys.modules is how Python itself marks a module that cannot be imported.
    for name in [name for name in sys.modules if name.startswith("psycopg")]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in [name for name in sys.modules if "drivers.postgresql" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'lakebed\[postgres\]'"):
        open_store("postgresql://user:secret@127.0.0.1/db")
