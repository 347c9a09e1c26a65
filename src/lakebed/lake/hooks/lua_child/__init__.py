"""The process of a Lua script: resource limits, the interpreter, and the packages for scripts.

Only this package imports the interpreter, and the server never imports the modules that do.
"""
