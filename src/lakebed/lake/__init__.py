"""The operations that all APIs share: objects, commits, imports, pull requests, hooks.

Imports `lakebed.engine` and the layers below; nothing of HTTP, users or permissions. Public: the
components of `catalog.Catalog`, which the REST API, the S3 gateway, the library and the jobs of a
server call. The catalog takes ids, refs (expressions such as ``main~3``) and paths as bytes, and
returns an object as its user knows it, without the metadata reserved for Lakebed.

| component (attribute of `Catalog`)| what it does                                                |
|-----------------------------------|-------------------------------------------------------------|
| `repositories`                    | creates, lists and deletes repositories                     |
| `refs`                            | branches, tags, logs, merge bases, protection rules, dumps  |
| `ref_changes`                     | creates and deletes branches and tags                       |
| `commits`                         | commits, merges, reverts, cherry-picks, resets              |
| `pulls`                           | pull requests                                               |
| `diff`                            | what differs between refs, or is uncommitted                |
| `objects`                         | reads, lists and deletes objects                            |
| `previews`                        | shows what is in objects: rows of tables, text, differences |
| `uploads`, `copies`               | writes objects                                              |
| `multiparts`, `completions`       | uploads in parts                                            |
| `links`, `external`, `presigning` | objects whose bytes do not pass through the server          |
| `pins`                            | what the first readers of unverified objects found          |
| `metadata_files`, `symlinks`      | files for programs that read the storage themselves         |
| `tasks`                           | what takes longer than a client waits                       |
| `usage`                           | counts requests                                             |

Places in the storage that clients name are read by `lakebed.lake.places`, in one spelling.
Callers import values of the layers below (`BranchID`, `Commit`, `EntryQuery`...) from their own
modules, and the errors that they raise or catch from `lakebed.lake.errors`. This file imports
nothing: the process that supervises the server reads the catalog's settings, and must not import
the engine for that.
"""
