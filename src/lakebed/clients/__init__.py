"""Programs that use a lake: HTTP client, command line, library, working copies, Spark jobs.

May import every package below `lakebed.testing`. Public: the names of `lakebed`, and the command.
"""
