"""Previews of objects for people: rows of tables, text, and differing rows.

| module        | purpose                                                                          |
|---------------|----------------------------------------------------------------------------------|
| `previews`    | entry point: chooses the way to show an object                                   |
| `bounded`     | reads ranges of an object, with limits on bytes and time                         |
| `decoding`    | reads tables in this process                                                     |
| `decoders`    | reads tables in child processes (`decoder_process`), over `frames`               |
| `tables`      | reads rows: Parquet, Arrow, CSV, JSON lines                                      |
| `columns`     | statistics of columns: types, minimum, maximum, a small histogram                |
| `texts`       | text, Markdown and notebooks, as trees of a few tags, never as markup            |
| `row_diff`    | differing rows of two versions of a table                                        |
"""
