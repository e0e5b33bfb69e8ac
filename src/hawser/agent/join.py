"""Joining a network: a token in, certificates out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hawser.agent.errors import AgentError
from hawser.agent.state import Joined, StateDirectory
from hawser.control.https import ApiClient, ApiError, trusting, trusting_anybody
from hawser.pki.file import create_private
from hawser.pki.key import key_pem, new_key, read_key
from hawser.pki.request import new_request
from hawser.pki.token import JoinToken, pin

_ASK_EVERY_S = 2.0


def join(state: StateDirectory, url: str, token: JoinToken, waits: Callable[[str], None]) -> Joined:
    """Join a network as the gateway of the token's branch.

    Args:
        state: the agent's directory; it may be empty.
        url: the controller's.
        token: from the controller.
        waits: told that the request waits for approval.

    Raises:
        AgentError: the controller is another one than the token's, or this gateway has joined.
        ApiError: the controller cannot be asked, or refuses.
    """
    if (state.path / "joined.json").exists():
        raise AgentError(f"{state.path}: this gateway has joined a network already")
    state.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = _authority(url, token)
    key = _key(state)
    client = ApiClient(url, trusting(authority))
    body = {
        "token": token.id,
        "secret": token.secret,
        "request": new_request(read_key(key), "gateway").decode(),
    }
    answer = _approved(client, body, waits)
    branch = str(answer["branch"])
    state.put_pki(branch, authority, answer["certificate"].encode(), key)
    joined = Joined(host=client.host, port=answer["gateways_port"], branch=branch)
    state.join(joined)
    state.pending_key().unlink()
    return joined


def _authority(url: str, token: JoinToken) -> bytes:
    """Ask for the authority's certificate, and take only that which the token names."""
    answer = ApiClient(url, trusting_anybody()).ask("GET", "/v1/join")
    try:
        certificate = str(answer["certificate"]).encode()
    except (KeyError, TypeError) as error:
        raise ApiError(f"{url}: this is no controller") from error
    if pin(certificate) != token.pin:
        raise AgentError(f"{url}: this is not the controller that made the token")
    return certificate


def _key(state: StateDirectory) -> bytes:
    path = state.pending_key()
    if not path.exists():
        create_private(path, key_pem(new_key()), durable=True)
    return path.read_bytes()


def _approved(client: ApiClient, body: dict[str, str], waits: Callable[[str], None]) -> Any:  # noqa: ANN401 (JSON)
    told = False
    while True:
        answer = client.ask("POST", "/v1/join", body)
        if answer["state"] == "approved":
            return answer
        if not told:
            waits(str(answer["branch"]))
            told = True
        time.sleep(_ASK_EVERY_S)
