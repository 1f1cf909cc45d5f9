"""An OpenID Connect provider of its own process: Canaille, which is a real one, with two people, their groups and one client.

`python provider.py PORT DASHBOARD` serves http://localhost:PORT until it is ended; nothing is kept.
"""

from __future__ import annotations

import sys

PASSWORD = "correct horse battery staple"
SECRET = "a secret that the provider and the dashboard share"
GROUPS = {"vera": "assay-viewers", "oscar": "assay-operators", "nora": "gardeners"}
DISCOVERY = "http://localhost:{port}/.well-known/openid-configuration"


def serve(port: int, dashboard: str) -> None:
    """Serve until ended, for the dashboard at this address."""
    from canaille import create_app
    from canaille.app import models
    from canaille.backends import Backend
    from joserfc.jwk import RSAKey

    app = create_app(
        {
            "SECRET_KEY": SECRET,
            "SERVER_NAME": f"localhost:{port}",
            "CANAILLE": {"DATABASE": "memory", "CAPTCHA_ENABLED": False},
            "CANAILLE_OIDC": {"ACTIVE_JWKS": [RSAKey.generate_key(2048).as_dict(private=True)]},
        }
    )
    back = f"{dashboard}/oauth2callback"
    with app.app_context(), Backend.instance.session():
        for name, group in GROUPS.items():
            user = models.User(
                user_name=name, formatted_name=name.title(), family_name=name.title(), password=PASSWORD,
                emails=[f"{name}@example.org"],
            )  # fmt: skip
            Backend.instance.save(user)
            Backend.instance.save(models.Group(display_name=group, members=[user]))
        client = models.Client(
            client_id="assay", client_secret=SECRET, client_name="Assay", client_uri=dashboard, redirect_uris=[back],
            post_logout_redirect_uris=[back], grant_types=["authorization_code"], response_types=["code"],
            scope=["openid", "profile", "email", "groups"], token_endpoint_auth_method="client_secret_basic",
        )  # fmt: skip
        Backend.instance.save(client)
        client.audience = [client]
        Backend.instance.save(client)
    app.run("127.0.0.1", port, threaded=True)


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
