"""The application of the lab, and the server that runs it on 127.0.0.1."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostinato import __version__
from ostinato.core.errors import ConfigError, OstinatoError
from ostinato.lab.answers import answer
from ostinato.lab.bundle import STATIC, TEXTS, bundle, index
from ostinato.lab.pages import PAGES
from ostinato.lab.shelf import Shelf

HOST = "127.0.0.1"
LONGEST_QUESTION = 1 << 17  # bytes; a typed text is part of its address, nine bytes for a Chinese character
HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
"""On every answer. Nothing from outside may be loaded, and no other site may read or frame what is shown."""


class Guarded:
    """Puts `HEADERS` on every answer of an application."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *headers]}
            await send(message)

        await self.app(scope, receive, guarded)


def make_app(shelf: Shelf) -> FastAPI:
    """The application that shows the runs of a shelf; errors are JSON: {"error": "what, where, what to do"}."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.shelf = shelf
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])  # no other name may lead here
    app.add_middleware(Guarded)
    app.add_exception_handler(OstinatoError, tell)
    app.add_exception_handler(RequestValidationError, tell)
    for page in PAGES:
        app.include_router(page.router)
    about = {
        "version": __version__,
        "pages": [{"name": page.name, "needs_runs": page.needs_runs} for page in PAGES],
    }

    @app.get("/")
    def front() -> HTMLResponse:
        return HTMLResponse(index(about))

    @app.get("/bundle.html")
    def whole() -> HTMLResponse:
        return HTMLResponse(bundle(about))

    @app.get("/api/shelf")
    def names() -> Response:
        return answer({"runs": [{"name": name, "path": str(path)} for name, path in shelf.runs().items()]})

    app.mount("/static", StaticFiles(directory=STATIC))
    app.mount("/i18n", StaticFiles(directory=TEXTS))
    return app


def tell(_: Request, fault: Exception) -> Response:
    """What went wrong as JSON: 400 for a wrong question, 409 for a run that cannot be used."""
    if isinstance(fault, RequestValidationError):
        first = fault.errors()[0]
        said = f"{first['loc'][-1]}: {first['msg']}, got {first.get('input')!r}"
    else:
        said = str(fault)
    told = answer({"error": said})
    told.status_code = 409 if isinstance(fault, OstinatoError) and not isinstance(fault, ConfigError) else 400
    return told


def serve(shelf: Shelf, port: int, ready: Callable[[str], None]) -> None:
    """Serve until stopped; `ready` is called with the address once it answers. Port 0: any that is free.

    Raises ConfigError if the port is taken.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as fault:
        listener.close()
        raise ConfigError(f"port {port}: {fault.strerror}; choose another --port, or 0 for any that is free") from None
    listener.listen()  # from here on a browser that comes early waits
    address = f"http://{HOST}:{listener.getsockname()[1]}/"
    config = uvicorn.Config(
        make_app(shelf),
        log_level="warning",
        lifespan="off",
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=LONGEST_QUESTION,
    )
    threading.Thread(target=ready, args=(address,), daemon=True).start()
    uvicorn.Server(config).run(sockets=[listener])
