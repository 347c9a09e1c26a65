"""The process of one Lua script: limits, the interpreter, and the packages that scripts may use.

Only this package imports the interpreter, and the server never imports what runs it.
"""
