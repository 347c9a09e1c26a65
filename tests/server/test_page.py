import re
from html.parser import HTMLParser

from lakebed.server.ui import page


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.targets += [value or "" for name, value in attrs if name in {"href", "src"}]


def test_the_page_names_its_endpoint_and_needs_nothing_from_elsewhere() -> None:
    text = page("http://127.0.0.1:8000").decode()
    assert text.count("http://127.0.0.1:8000") >= 4
    assert "{{" not in text
    links = Links()
    links.feed(text)
    assert all(target.startswith(("/", "data:image/svg+xml,")) for target in links.targets)
    assert {"/openapi.json", "/metrics", "/healthcheck"} <= set(links.targets)
    assert "script" not in links.tags
    assert not re.search(r"url\(|@import", text)


def test_an_endpoint_cannot_bring_markup_along() -> None:
    text = page('http://x/"><script>alert(1)</script>').decode()
    assert "<script" not in text
