"""`lakebed fs`: objects."""

from lakebed.clients.cli.commands.fs.objects import (
    cat,
    cp,
    ls,
    mv,
    presign,
    rm,
    stage,
    stat,
    update_metadata,
)
from lakebed.clients.cli.commands.fs.upload import download, upload
from lakebed.clients.cli.groups import new_group
from lakebed.clients.cli.session import client_command

app = new_group()

client_command(app, "ls")(ls)
client_command(app, "cat")(cat)
client_command(app, "stat")(stat)
client_command(app, "upload")(upload)
client_command(app, "download")(download)
client_command(app, "cp")(cp)
client_command(app, "mv")(mv)
client_command(app, "rm")(rm)
client_command(app, "stage")(stage)
client_command(app, "presign")(presign)
client_command(app, "update-metadata")(update_metadata)
