"""Every answer is as the OpenAPI document says, whatever is sent (schemathesis)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta

import pytest
import schemathesis
from argon2 import PasswordHasher
from controller_sample import PASSWORD, Api, Clock, Machine, controller
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from hawser.controller.access import password, user
from hawser.controller.access.principal import system
from hawser.controller.access.role import Role
from hawser.controller.access.secret import digest, new_secret
from hawser.controller.context import Context
from hawser.controller.db.tables import LoginSession, User

_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
_EXAMPLES = 12
"""Requests of each operation, valid and not."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(password, "_hasher", PasswordHasher(1, 8, 1))
        context = controller(tmp_path_factory.mktemp("controller") / "acme", Clock())
        made = Api(context).log_in()
        for branch in ("b1", "b2"):  # gateways 1 and 2
            token = made.do("POST", "/v1/tokens", {"branch": branch})["token"]
            assert Machine().join(made, token).status_code == 200
        yield made
        context.close()


def test_answers_are_as_described(api: Api) -> None:
    document = schemathesis.openapi.from_asgi("/v1/openapi.json", api.app, headers=api.headers)
    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) >= 35
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            _fuzz(api, operation.as_strategy(generation_mode=mode))


def _fuzz(api: Api, cases: st.SearchStrategy[schemathesis.Case]) -> None:
    @settings(
        max_examples=_EXAMPLES,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def check(case: schemathesis.Case) -> None:
        _check(api, case)

    with contextlib.suppress(Unsatisfiable):  # it takes nothing that could be wrong
        check()


def _check(api: Api, case: schemathesis.Case) -> None:
    headers = api.headers
    if case.path in ("/v1/logout", "/v1/me/password", "/v1/me/sessions"):
        headers = _another_session(api)
    answer = case.call(headers=headers)
    case.validate_response(answer, checks=_CHECKS)
    assert PASSWORD not in answer.text


def _another_session(api: Api) -> dict[str, str]:
    """A session of another user, which the request may end."""
    context: Context = api.app.state.context
    token, now = f"hws_{new_secret()}", context.clock()
    with context.database.write() as session:
        if session.get(User, "other") is None:
            user.add_user(session, system("test"), now, "other", Role.OPERATOR, PASSWORD)
        row = LoginSession(
            digest=digest(token), name="other", created=now, expires=now + timedelta(hours=1)
        )
        session.add(row)
    return {"Authorization": f"Bearer {token}"}
