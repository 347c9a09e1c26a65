"""Options and columns that users, groups and policies share."""

from typing import Annotated, Final

import typer

from lakebed.cli.output import Column, moment

UserOption = Annotated[str, typer.Option("--id", metavar="USER", help="The user's name.")]
GroupOption = Annotated[str, typer.Option("--id", metavar="GROUP", help="The group's name.")]
PolicyIdOption = Annotated[str, typer.Option("--id", metavar="POLICY", help="The policy's name.")]
MemberOption = Annotated[str, typer.Option("--user", metavar="USER", help="The member's name.")]
PolicyOption = Annotated[str, typer.Option("--policy", metavar="POLICY", help="The policy's name.")]

COLUMNS: Final[list[Column]] = [
    ("Name", lambda item: item["id"]),
    ("Created", lambda item: moment(item.get("creation_date"))),
]
