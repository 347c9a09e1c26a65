"""Queries are read as the standard library reads them."""

from urllib.parse import parse_qsl

from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.server.api.dispatch import _parameters


@given(st.text(alphabet="ab=&+%;20cC3A9é/ \x00", max_size=30))
@example("a=1&b=&c&&=d&e==f&a=2")
@example("path=a%2Fb+c%20d&x=%C3%A9")
@example("path=a;b&x=%zz%")
def test_a_query_is_read_as_the_library_reads_it(text: str) -> None:
    def outcome(read: object) -> object:
        try:
            return list(read(text))  # type: ignore[operator]
        except UnicodeDecodeError:
            return "not UTF-8"

    expected = outcome(lambda text: parse_qsl(text, keep_blank_values=True, errors="strict"))
    assert outcome(_parameters) == expected
