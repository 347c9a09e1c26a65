"""The HTTP/1.1 server of a worker: connections, heads, bodies and answers; no application.

- `heads`: reads the head of a request, and refuses what is not one;
- `request_bodies`: the body of a request, as the application reads it;
- `answers`: what the application answers, as bytes;
- `connection`: one connection, and where it is between its requests;
- `listening`: the listening socket, which all workers share;
- `server`: takes connections in, and the threads that serve them.

Threads wait together at one *poll object* of the system. Whichever gets an event serves the request
itself, from the head to the answer. A connection that waits for its client holds no thread, except
while an application reads a body or streams an answer.
"""
