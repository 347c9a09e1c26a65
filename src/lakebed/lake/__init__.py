"""The operations that all APIs share: objects, commits, imports, pull requests, hooks.

Imports `lakebed.engine` and the layers below, never HTTP, users or permissions. Public: the
components of `catalog.Catalog`, used by the REST API, the S3 gateway, the library and background
jobs. The catalog takes ids, refs (expressions such as ``main~3``) and paths as bytes. Returned
objects omit the metadata reserved for Lakebed.

| component (attribute of `Catalog`)| what it does                                                |
|-----------------------------------|-------------------------------------------------------------|
| `repositories`                    | creates, lists and deletes repositories                     |
| `refs`                            | branches, tags, logs, merge bases, protection rules, dumps  |
| `ref_changes`                     | creates and deletes branches and tags                       |
| `commits`                         | commits, merges, reverts, cherry-picks, resets              |
| `pulls`                           | pull requests                                               |
| `diff`                            | differences between refs, uncommitted changes               |
| `objects`                         | reads, lists and deletes objects                            |
| `versions`                        | lists versions of objects, for S3                           |
| `previews`                        | shows rows of tables, text and differences of objects       |
| `uploads`, `copies`               | writes objects                                              |
| `multiparts`, `completions`       | multipart uploads                                           |
| `links`, `external`, `presigning` | objects whose bytes do not pass through the server          |
| `etag_pins`                       | content first read of unverified objects                    |
| `metadata_files`, `symlinks`      | files for programs that read the storage themselves         |
| `tasks`                           | long-running operations                                     |
| `usage`                           | counts requests                                             |

`lakebed.lake.places` parses storage locations named by clients, in one spelling. Callers import
values of the layers below (`BranchID`, `Commit`, `EntryQuery`...) from their own modules, and
errors from `lakebed.lake.errors`. This file imports nothing: the supervisor of the server reads
the catalog's settings and must not import the engine.
"""
