"""What garbage collection asks of a server: the preparation of its runs."""

from lakebed.server.routes import Routes

routes = Routes("gc")
