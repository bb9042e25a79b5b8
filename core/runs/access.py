"""Who may reach the app: what the admin has configured for a server that is not for this machine alone."""

from __future__ import annotations

import importlib.util
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from core.runs.environment import PROJECT_ROOT
from core.spec.errors import InvalidSpec

PUBLIC_URL = "VRAMSCOPE_PUBLIC_URL"
"""Where visitors reach the app through a proxy."""

OPEN_TO_ALL = "VRAMSCOPE_WITHOUT_AUTHENTICATION"
"""Set to 1 by `serve --without-authentication`: the admin has said that whoever reaches the port may use the app."""

SECRETS = (Path("~/.streamlit/secrets.toml"), PROJECT_ROOT / ".streamlit" / "secrets.toml")
"""Where Streamlit looks, the later one first."""

SHARED = ("redirect_uri", "cookie_secret")
OF_A_PROVIDER = ("client_id", "client_secret", "server_metadata_url")


@dataclass(frozen=True)
class Authentication:
    """OpenID Connect as secrets.toml configures it for st.login. `providers`: their names; none for the unnamed one."""

    providers: tuple[str, ...]


def is_loopback(address: str | None) -> bool:
    """Whether a server on this address is reached from this machine alone. None means every address."""
    if address is None:
        return False
    if address.strip("[]").lower() == "localhost":
        return True
    try:
        return ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


def authentication(places: tuple[Path, ...] = SECRETS) -> Authentication | None:
    """What is configured; None where nothing is. Raises InvalidSpec for a configuration that lacks something."""
    found: dict[str, Any] = {}
    for place in places:
        try:
            found |= tomllib.loads(place.expanduser().read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            raise InvalidSpec(f"{place} cannot be read ({error}); it has to be TOML") from error
    auth = found.get("auth")
    if not isinstance(auth, dict):
        return None
    named = {name: entry for name, entry in auth.items() if isinstance(entry, dict)}
    providers = named or {"": auth}
    missing = [key for key in SHARED if not auth.get(key)]
    missing += [
        f"{name}.{key}".lstrip(".") for name, one in providers.items() for key in OF_A_PROVIDER if not one.get(key)
    ]
    if missing:
        raise InvalidSpec(f"[auth] in secrets.toml lacks {', '.join(missing)}; see docs/serving.md")
    if importlib.util.find_spec("authlib") is None:
        raise InvalidSpec("[auth] in secrets.toml needs a package that is not installed: pip install Authlib")
    return Authentication(tuple(named))


def admitted(email: object, allowed: tuple[str, ...]) -> bool:
    """Whether someone who has logged in may use the app: everyone, or whom settings.json lists (`*@example.org`)."""
    if not allowed:
        return True
    return isinstance(email, str) and any(fnmatchcase(email.lower(), one.lower()) for one in allowed)
