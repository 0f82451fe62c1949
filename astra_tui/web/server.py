"""Serves the screen to browsers that know a token, and to none of their other pages."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from typing import Any

import aiohttp_jinja2
from aiohttp import web
from textual_serve.server import Server

from astra_tui.model.errors import UserError

_PAGES = Path(__file__).parent / "pages"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is any that is free. Raises UserError."""
    try:
        return socket.create_server((host, port))
    except (OSError, OverflowError) as error:
        raise UserError(
            f"cannot listen on {host}, port {port}: {getattr(error, 'strerror', '') or error}",
            hint="name another with --port; 0 is any that is free",
        ) from None


class ScreenServer(Server):
    """One app process for each page that a browser opens; all pages need the token.

    A page of another origin is refused even where the browser sends the token along, and so is a
    socket that does not say which page opened it.
    """

    def __init__(self, command: str, at: socket.socket):
        host, port = at.getsockname()[:2]
        super().__init__(command, host, port, title="astra-tui", templates_path=_PAGES)
        self.token = secrets.token_urlsafe(32)
        self._at = at
        # Cookies know no ports: a server on another one has its own.
        self._cookie = f"astra_tui_{port}"

    @property
    def url(self) -> str:
        """The address to open, which is a key: it holds the token."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/?token={self.token}"

    def serve(self, debug: bool = False) -> None:
        """Serves until SIGINT or SIGTERM."""
        self.debug = debug
        web.run_app(self._make_app(), sock=self._at, print=None, access_log=None)

    async def on_startup(self, app: web.Application) -> None:
        """Says nothing: who serves says where."""

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.router.add_get("/screen.js", _script)
        app.middlewares.append(self._admit)
        app.on_response_prepare.append(_add_headers)
        return app

    @web.middleware
    async def _admit(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Passes on what comes with the token, and a socket if our own page opened it."""
        shown = request.query.get("token") or request.cookies.get(self._cookie, "")
        if not secrets.compare_digest(shown.encode(), self.token.encode()):
            raise web.HTTPForbidden(text="open the address that astra-tui serve has printed\n")
        own = f"{request.scheme}://{request.host}"
        if request.headers.get("Origin", own if request.path != "/ws" else "") != own:
            raise web.HTTPForbidden(text="pages of other origins may not use this server\n")
        if request.path == "/" and "token" in request.query:
            answer = web.HTTPSeeOther("/")  # The token leaves the address bar and the history.
            answer.set_cookie(self._cookie, self.token, httponly=True, samesite="Strict")
            return answer
        found: web.StreamResponse = await handler(request)
        return found

    @aiohttp_jinja2.template("screen.html")
    async def handle_index(self, request: web.Request) -> dict[str, Any]:
        """What the page needs: where its socket is."""
        scheme = "wss" if request.scheme == "https" else "ws"
        return {"socket": f"{scheme}://{request.host}/ws", "title": self.title}


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)


async def _script(_request: web.Request) -> web.FileResponse:
    return web.FileResponse(_PAGES / "screen.js")
