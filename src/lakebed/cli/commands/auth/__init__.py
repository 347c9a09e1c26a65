"""`lakebed auth`: who may do what."""

from lakebed.cli.commands.auth.groups import app as groups
from lakebed.cli.commands.auth.policies import app as policies
from lakebed.cli.commands.auth.users import app as users
from lakebed.cli.groups import new_group

app = new_group()
app.add_typer(users, name="users")
app.add_typer(groups, name="groups")
app.add_typer(policies, name="policies")
