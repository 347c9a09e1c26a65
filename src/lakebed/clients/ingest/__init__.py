"""Imports on Spark: for lakes that are too large for one machine to list.

`job` makes an import: executors list the objects (`executors`) and write down what they found, the
driver splits that into parts (`plan`), executors cut each part into ranges, and the driver stores
the metarange and hands it to the server (`server`), which checks and publishes it. The ranges are
those that the server would have written, bit for bit.
"""
