"""Imports on Spark, for lakes too large to be listed by one machine.

`job` runs an import. Executors list objects to files (`executors`); the driver splits the files
into parts (`plan`); executors cut each part into ranges; the driver stores the metarange and
reports its id to the server (`server`), which verifies and publishes the commit. The ranges are bit
for bit the same as the server's own.
"""
