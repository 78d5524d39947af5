"""`fencepost template`: publishing template versions, and looking at them."""

import json
from http import HTTPStatus
from typing import Annotated, Any, Final

import typer

from api.commands.client import TEMPLATES, Api, connected, segment
from api.commands.options import only_one_from_stdin, read_context, read_object, read_text
from api.commands.output import Json, print_json, print_one, print_page, print_record, printable
from api.commands.refusals import BAD_USE, refuse, say

app = typer.Typer(
    help="Templates; a version never changes. The key is FENCEPOST_API_KEY. A file named - is standard input.",
    no_args_is_help=True,
)

COLUMNS: Final = ("key", "version", "purpose", "created_at")

KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The template's key.")]


@app.command("publish")
def publish_template(
    key: KeyArgument,
    *,
    subject: Annotated[str | None, typer.Option(help="The subject, a template too.")] = None,
    text_file: Annotated[str | None, typer.Option(metavar="FILE", help="The plain text.")] = None,
    html_file: Annotated[str | None, typer.Option(metavar="FILE", help="The HTML.")] = None,
    schema_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="What the context has to be: JSON Schema, Draft 2020-12.")
    ] = None,
    purpose: Annotated[str | None, typer.Option(help="What its messages are for, unless they say so.")] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="All of this as one JSON object, in place of the others.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Publish a version, with the next number. One that is like the newest is that one again.

    Example: fencepost template publish welcome --subject "Hello {{ name }}" --text-file welcome.txt
    """
    if file is None:
        body = _read_parts(subject, text_file=text_file, html_file=html_file, schema_file=schema_file, purpose=purpose)
    elif any(part is not None for part in (subject, text_file, html_file, schema_file, purpose)):
        refuse("--file: it stands in place of all other options", status=BAD_USE)
    else:
        body = read_object("--file", read_text("--file", file))
    with connected(TEMPLATES) as api:
        status, version = api.call("POST", _versions_of(key), "version", body=body)
    if status == HTTPStatus.OK:
        say("this is the newest version already")
    print_one(version, COLUMNS, as_json=as_json)


def _read_parts(
    subject: str | None, *, text_file: str | None, html_file: str | None, schema_file: str | None, purpose: str | None
) -> dict[str, Any]:
    """Read what the options of `publish` name; what is left out stays so."""
    if subject is None or (text_file is None and html_file is None):
        refuse("say --subject, and --text-file or --html-file or both; or --file", status=BAD_USE)
    only_one_from_stdin(text_file, html_file, schema_file)
    parts: dict[str, Any] = {"subject": subject, "purpose": purpose}
    if text_file is not None:
        parts["text"] = read_text("--text-file", text_file)
    if html_file is not None:
        parts["html"] = read_text("--html-file", html_file)
    if schema_file is not None:
        parts["context_schema"] = read_object("--schema-file", read_text("--schema-file", schema_file))
    return parts


@app.command("list")
def list_templates(*, as_json: Json = False) -> None:
    """List the tenant's templates.

    Example: fencepost template list
    """
    with connected(TEMPLATES) as api:
        print_page(api.pages("/v1/templates"), COLUMNS, as_json=as_json)


@app.command("show")
def show_template(
    key: KeyArgument,
    version: Annotated[int | None, typer.Argument(metavar="VERSION", min=1, help="Left out: the newest.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """Show a version, with its source.

    Example: fencepost template show welcome 1
    """
    with connected(TEMPLATES) as api:
        number = version if version is not None else _newest(api, key)
        found = api.get(f"{_versions_of(key)}/{number}", "key", "version")
    if as_json:
        print_json(found)
        return
    schema = json.dumps(found.get("context_schema"), ensure_ascii=False)
    print_record({**{name: found.get(name) for name in COLUMNS}, "context_schema": schema})
    _print_mail(found)


@app.command("preview")
def preview_template(
    key: KeyArgument,
    version: Annotated[int, typer.Argument(metavar="VERSION", min=1)],
    *,
    context: Annotated[str | None, typer.Option(metavar="JSON", help="The template's values.")] = None,
    context_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="The same from a file; - is standard input.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Render a version as a message would be stored. Nothing is sent.

    Example: fencepost template preview welcome 1 --context '{"name": "Ada"}'
    """
    body = {"context": read_context(context, context_file)}
    with connected(TEMPLATES) as api:
        _, preview = api.call("POST", f"{_versions_of(key)}/{version}/preview", "subject", body=body)
    if as_json:
        print_json(preview)
    else:
        _print_mail(preview)


def _newest(api: Api, key: str) -> int:
    versions = [int(each["version"]) for each in api.pages("/v1/templates").data if each.get("key") == key]
    if not versions:
        refuse("no template has this key: `fencepost template list` shows what there is")
    return max(versions)


def _versions_of(key: str) -> str:
    return f"/v1/templates/{segment(key)}/versions"


def _print_mail(mail: dict[str, Any]) -> None:
    """Print subject, text and HTML, the latter two as they are."""
    print_record({"subject": mail.get("subject")})
    for part in ("text", "html"):
        if mail.get(part):
            print(f"\n{part}:\n{printable(mail[part])}", flush=True)
