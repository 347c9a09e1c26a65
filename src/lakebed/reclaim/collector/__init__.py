"""Runs of garbage collection: find and delete the objects that nothing refers to.

Imports `lakebed.formats` and `lakebed.block`, but no key-value store, so that Spark runs it
anywhere. Public: `job.CollectorJob`, and the parts of a run, of which each decides one thing:

- `rules`: which object is garbage; `frames` says the same on Spark, `columns` on Arrow.
- `job`: the order of a run: lease, expiry, preparation, judging, brakes, sweep, state.
- `on_arrow`, `on_spark`: where a run works, in this process or on Spark (with the frames of
  `sources`). `judging` has the question (`Judging`) and the answer (`Findings`) of both.
- `executors`: how files are read, objects listed and deleted, results written, wherever that is.
- `storage`: which storage is the server's, and which state counts (`SavedState`).
- `report`: which files of old runs stay.

The server's part is in `lakebed.reclaim.service`. A job asks for it through `job.ServerSide`: by
HTTP (`lakebed.clients.garbage.server`), or in the same process.
"""
