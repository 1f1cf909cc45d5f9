"""What a page may load: nothing from another host, whatever text an event brings into it."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["POLICY", "ContentPolicy"]

POLICY = "; ".join(
    (
        "default-src 'self'",
        # Streamlit and Vega run inline scripts and make functions of text.
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "media-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "frame-src 'self' data: blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        # No other page may put this one in a frame and have its buttons clicked.
        "frame-ancestors 'self'",
    )
)


class ContentPolicy:
    """ASGI middleware that adds a Content-Security-Policy to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and add the header to what comes back."""

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"content-security-policy", POLICY.encode())]
            await send(message)

        await self._app(scope, receive, send_with_policy if scope["type"] == "http" else send)
