"""Garbage collection runs: find and delete unreferenced objects.

Imports `lakebed.formats` and `lakebed.block`, but no key-value store, so that Spark can run it
anywhere. Public: `job.CollectorJob`, and the parts of a run:

- `rules`: which object is garbage; `frames` implements the same on Spark, `columns` on Arrow.
- `job`: the order of a run: lease, expiry, preparation, judging, safety limits, sweep, state.
- `on_arrow`, `on_spark`: a run in this process or on Spark (with the frames of `frame_reader`).
  `judging` has the input (`Judging`) and the result (`Findings`) of both.
- `executors`: reading files, listing and deleting objects, writing results.
- `storage`: the server's storage, and the saved state (`SavedState`).
- `report`: summaries, and the retention of files of old runs.

The server's part is in `lakebed.reclaim.service`. A job calls it through `job.ServerSide`: by HTTP
(`lakebed.clients.garbage.server`), or in the same process.
"""
