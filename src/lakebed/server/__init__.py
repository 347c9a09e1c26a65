"""The HTTP server: processes, requests, and the REST API, the S3 gateway and the web UI.

Imports every layer below and `lakebed.httpd`, never `lakebed.clients`. Public: `app.build`, `wsgi`
for other WSGI servers, and the commands' entry points (`processes.supervisor`, `quickstart`).
"""
