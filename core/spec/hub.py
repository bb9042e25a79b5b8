"""Reads a model's config and the names of its files from the Hugging Face hub, or from its cache without a network."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from core.spec.errors import InvalidSpec
from core.spec.presets import preset_names

HUB_TIMEOUT_S = 3.0


def fetch_config(name: str, revision: str | None) -> Path:
    """The path of the config.json of the hub's model `name`, in the hub's cache. Raises InvalidSpec."""
    from huggingface_hub import hf_hub_download  # noqa: PLC0415  # half a second, and rarely needed
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError  # noqa: PLC0415

    try:
        return Path(
            hf_hub_download(
                name,
                "config.json",
                revision=revision,
                local_files_only=not hub_answers(),
                etag_timeout=HUB_TIMEOUT_S,
            )
        )
    except LocalEntryNotFoundError as error:
        raise InvalidSpec(
            f"{name} is not in the local cache and the hub does not answer; without a network use a folder with "
            f"config.json, or a preset with weights=random ({', '.join(preset_names()[:4])}, …)"
        ) from error
    except HfHubHTTPError as error:
        at = f" at revision {revision}" if revision else ""
        raise InvalidSpec(f"the hub gives no config.json for {name}{at}: {_first_line(error)}") from error
    except (OSError, ValueError) as error:
        raise InvalidSpec(f"{name} could not be fetched from the hub: {_first_line(error)}") from error


def saved_files(name: str, revision: str | None, config: Path) -> list[str]:
    """Names of the model's files: those of the hub, or those beside the cached `config` without a network."""
    from huggingface_hub import HfApi  # noqa: PLC0415  # see fetch_config
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415

    if not hub_answers():
        return [file.name for file in config.parent.iterdir()]
    try:
        return list(HfApi().list_repo_files(name, revision=revision))
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise InvalidSpec(f"the hub does not list the files of {name}: {_first_line(error)}") from error


def hub_answers() -> bool:
    """Whether the hub, or the proxy on the way to it, takes a connection within three seconds.

    Asked before the library is: its own retries take half a minute where there is no network. In a thread, because
    looking up a name has no time limit of its own.
    """
    from huggingface_hub import constants  # noqa: PLC0415  # see fetch_config

    if constants.HF_HUB_OFFLINE:
        return False
    address = urlsplit(constants.ENDPOINT)
    host, port, scheme = address.hostname or "", address.port, address.scheme
    proxy = getproxies().get(scheme)
    if proxy and not proxy_bypass(host):
        address = urlsplit(proxy if "//" in proxy else f"//{proxy}")
        host, port, scheme = address.hostname or "", address.port, address.scheme
    connected = threading.Event()

    def connect() -> None:
        try:
            with socket.create_connection((host, port or (80 if scheme == "http" else 443)), HUB_TIMEOUT_S):
                connected.set()
        except OSError:
            pass  # what the caller learns from the event that was not set

    asking = threading.Thread(target=connect, daemon=True)
    asking.start()
    asking.join(HUB_TIMEOUT_S)
    return connected.is_set()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
