"""An installation, opened in this process: what a server and the library both stand on.

Here are the parts that are put together before there is any door: database, storage, engine,
catalog and hooks (`opening`), the layout of an installation that lies in one folder (`folder`), the
preparation of garbage collection without HTTP (`collecting`), and what an error means to a caller
(`statuses`). Nothing here knows users or permissions: the server puts those on top.
"""
