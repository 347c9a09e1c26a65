"""What is in an object, for people: some rows of a table, some text, and which rows differ.

| module        | what it does                                                                     |
|---------------|----------------------------------------------------------------------------------|
| `previews`    | the entrance: looks at an object and chooses how to show it                      |
| `bounded`     | reads an object by ranges, within a bound of bytes and of time                   |
| `decoding`    | reads tables, in this process                                                    |
| `decoders`    | reads tables in processes of their own: `decoder_process`, which speak `frames`  |
| `tables`      | reads rows: Parquet, Arrow, CSV, JSON lines                                      |
| `columns`     | what is known of columns: types, least and greatest values, a small histogram   |
| `texts`       | text, Markdown and notebooks, as trees of a few tags and never as markup         |
| `row_diff`    | which rows of two versions of a table differ                                     |
"""
