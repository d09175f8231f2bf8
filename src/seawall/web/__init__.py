"""The server: a typed API over HTTP, who may use it, and live events.

A door, not a room: routes turn requests into calls on the application and its store, and results
into JSON. Nothing here decides about jobs. `api` builds the ASGI application, `server` runs it;
`access` is the one place that says who may do what, `guard` what every request passes through. The
store is synchronous: routes ask it in `threads`, never on the event loop.

Needs the extra: pip install 'seawall[server]'.
"""
