"""The page at ``/docs``: the description of the API for people, as one document without scripts."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from lakebed.server.ui.assets import PREFIX, load_assets

STYLE: Final = "api.css"
_INTRODUCTION: Final = """<p>The API is that of lakeFS. Programs read
<a href="/openapi.json">/openapi.json</a>. Sign in by Basic, with an access key id and its secret,
or by a token of <a href="#login">login</a>.</p>"""
_REF: Final = "#/components/schemas/"


def render(description: Mapping[str, Any]) -> bytes:
    """Return the page of an OpenAPI description."""
    info = description["info"]
    title = f"{info['title']} {info['version']}: REST API"
    operations = list(_operations(description))
    by_tag: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = defaultdict(list)
    for path, method, operation in operations:
        by_tag[operation["tags"][0]].append((path, method, operation))
    tags = "".join(f'<li><a href="#{escape(tag)}">{escape(tag)}</a></li>' for tag in by_tag)
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        f'<link rel="stylesheet" href="{PREFIX}/{load_assets().digest}/{STYLE}"></head><body>',
        f"<header><h1>{escape(title)}</h1>",
        _INTRODUCTION,
        "</header>",
        f'<nav aria-label="Resources"><ul>{tags}<li><a href="#models">models</a></li></ul></nav>',
        "<main>",
    ]
    for tag, found in by_tag.items():
        parts.append(f'<section id="{escape(tag)}"><h2>{escape(tag)}</h2>')
        parts += [_operation(*each) for each in found]
        parts.append("</section>")
    models = description["components"]["schemas"]
    parts.append('<section id="models"><h2>models</h2>')
    parts += [_model(name, models[name]) for name in sorted(models)]
    parts.append("</section></main></body></html>")
    return "\n".join(parts).encode()


def _operations(description: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    name = escape(operation["operationId"])
    parameters = [
        (each["name"], each["in"], _type(each["schema"]), "yes" if each["required"] else "")
        for each in operation["parameters"]
    ]
    body = [
        (media, _type(content["schema"]))
        for media, content in operation.get("requestBody", {}).get("content", {}).items()
    ]
    answers = [
        (status, escape(answer["description"]), _contents(answer))
        for status, answer in operation["responses"].items()
    ]
    open_to_all = "<p>Anyone may call it.</p>" if operation.get("security") == [] else ""
    return (
        f'<details id="{name}"><summary><b class="{method.lower()}">{method}</b>'
        f" <code>{escape(path)}</code> <span>{escape(operation['summary'])}</span></summary>"
        f"<p>Operation <code>{name}</code></p>{open_to_all}"
        + _table("Parameters", ("name", "in", "type", "required"), parameters)
        + _table("Body", ("type", "content"), body)
        + _table("Answers", ("status", "", "content"), answers)
        + "</details>"
    )


def _contents(answer: Mapping[str, Any]) -> str:
    found = answer.get("content", {}).items()
    return ", ".join(f"{_type(content['schema'])} ({escape(media)})" for media, content in found)


def _model(name: str, schema: Mapping[str, Any]) -> str:
    required = schema.get("required", [])
    rows = [
        (field, _type(each), "yes" if field in required else "")
        for field, each in schema.get("properties", {}).items()
    ]
    said = f"<p>{escape(schema['description'])}</p>" if schema.get("description") else ""
    kind = "" if rows else f"<p>{_type(schema)}</p>"
    head = f'<details id="model-{escape(name)}"><summary><code>{escape(name)}</code></summary>'
    return head + said + kind + _table("", ("field", "type", "required"), rows) + "</details>"


def _type(schema: Mapping[str, Any]) -> str:
    """Return what values a schema allows, as markup."""
    if "$ref" in schema:
        name = escape(schema["$ref"].removeprefix(_REF))
        return f'<a href="#model-{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"<code>{escape(str(each))}</code>" for each in schema["enum"])
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"map of {_type(schema['additionalProperties'])}"
    bounds = [
        f"{words} {schema[name]}"
        for name, words in (("minimum", "from"), ("maximum", "to"), ("maxLength", "at most"))
        if name in schema
    ]
    shown = schema.get("format", kind)
    return escape(" ".join([str(shown), *bounds]))


def _table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table; the first cell of each row is text, the others are markup."""
    if not rows:
        return ""
    cells = "".join(f'<th scope="col">{each}</th>' for each in head)
    body = "".join(
        f"<tr><td><code>{escape(row[0])}</code></td>"
        + "".join(f"<td>{each}</td>" for each in row[1:])
        + "</tr>"
        for row in rows
    )
    heading = f"<h3>{title}</h3>" if title else ""
    return f"{heading}<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
