"""Routes: sessions, users, API keys and the audit log."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from hawser.controller.access import (
    audit,
    browser,
    key,
    login,
    own_role,
    password,
    second_factor,
    user,
)
from hawser.controller.access.principal import Principal
from hawser.controller.access.role import Permission
from hawser.controller.api.answer import documented
from hawser.controller.api.depends import Auditor, Manager, Shared, Who
from hawser.controller.api.guard import address_of
from hawser.controller.api.model import (
    AuditAnswer,
    AuditCheck,
    FactorAnswer,
    FactorBody,
    Id,
    KeyAnswer,
    KeyBody,
    LoginAnswer,
    LoginBody,
    Me,
    NewKey,
    NewPassword,
    OwnRoleAnswer,
    OwnRoleBody,
    PasswordBody,
    RoleBody,
    RoleName,
    UserAnswer,
    UserBody,
    UserName,
)
from hawser.controller.db.tables import ApiKey, AuditEntry, OwnRole, User
from hawser.controller.errors import Forbidden, Invalid
from hawser.controller.policy import version
from hawser.spec.validate import Issue

open_router = APIRouter(tags=["access"])
router = APIRouter(tags=["access"])


@open_router.post("/login", responses=documented(401, 429))
def log_in(body: LoginBody, request: Request, response: Response, shared: Shared) -> LoginAnswer:
    """Begin a session of twelve hours."""
    address = address_of(request.scope)
    given = login.Credentials(body.user, body.password, body.code, address)
    made = login.log_in(shared.database, shared.vault, given, shared.clock())
    return begun(made, response, cookie=body.cookie)


def begun(made: login.Login, response: Response, *, cookie: bool) -> LoginAnswer:
    """Hand over a session."""
    change = made.one_time
    response.headers["Cache-Control"] = "no-store"  # as RFC 6749 section 5.1 demands of tokens
    if not cookie:
        return LoginAnswer(token=made.token, expires=made.expires, change_password=change)
    response.set_cookie(
        browser.COOKIE,
        made.token,
        max_age=int(login.SESSION.total_seconds()),
        secure=True,
        httponly=True,
        samesite="strict",
    )
    csrf = browser.csrf_token(made.token)
    return LoginAnswer(token=None, csrf=csrf, expires=made.expires, change_password=change)


@router.post("/logout", status_code=204)
def log_out(request: Request, response: Response, shared: Shared, _who: Who) -> None:
    """End the session whose token is sent. An API key stays."""
    token = request.state.token
    with shared.database.write() as session:
        login.log_out(session, token)
    response.delete_cookie(browser.COOKIE, secure=True, httponly=True, samesite="strict")


@router.get("/me")
def me(request: Request, who: Who) -> Me:
    """Give the caller's name and permissions."""
    branches = None if who.branches is None else tuple(sorted(who.branches))
    return Me(
        name=who.name,
        permissions=tuple(sorted(who.permissions)),
        branches=branches,
        csrf=browser.csrf_token(request.state.token) if request.state.cookie else None,
    )


@router.put("/me/password", status_code=204, responses=documented(409))
def set_password(body: PasswordBody, shared: Shared, who: Who) -> None:
    """Change the caller's password, which ends all of its sessions."""
    if who.key is not None:
        raise Forbidden("a key cannot change the password of its owner")
    with shared.database.read() as session:
        stored = user.stored_password(session, who)
    if stored is not None and not password.verify(stored, body.current or ""):
        raise Invalid([Issue(("current",), "this is not the present password")])
    with shared.database.write() as session:
        user.set_password(session, who, shared.clock(), body.password)


@router.delete("/me/sessions", status_code=204)
def end_sessions(shared: Shared, who: Who) -> None:
    """End all sessions of the caller, this one too."""
    if who.key is not None:
        raise Forbidden("a key cannot end sessions of its owner")
    with shared.database.write() as session:
        login.end_sessions(session, who, shared.clock())


@router.post("/me/factor", responses=documented(409))
def begin_factor(shared: Shared, who: Who) -> FactorAnswer:
    """Give a secret for an authenticator (RFC 6238). A code of it has to be shown next."""
    _no_key(who)
    with shared.database.write() as session:
        return FactorAnswer(uri=second_factor.begin(session, shared.vault, who))


@router.put("/me/factor", status_code=204, responses=documented(409, 429))
def confirm_factor(body: FactorBody, shared: Shared, who: Who) -> None:
    """Ask for a code at each login from now on, and end the caller's sessions."""
    _no_key(who)
    with shared.database.write() as session:
        right = second_factor.confirm(session, shared.vault, who, shared.clock(), body.code)
    _require(right)


@router.post("/me/factor/remove", status_code=204, responses=documented(409, 429))
def remove_factor(body: FactorBody, shared: Shared, who: Who) -> None:
    """Ask for no code any more."""
    _no_key(who)
    with shared.database.write() as session:
        right = second_factor.remove(session, shared.vault, who, shared.clock(), body.code)
    _require(right)


def _require(right: bool) -> None:
    if not right:  # after the transaction that counts it
        raise Invalid([Issue(("code",), "this is not the present code, or was used already")])


def _no_key(who: Principal) -> None:
    if who.key is not None:
        raise Forbidden("a key cannot change how its owner logs in")


@router.delete("/users/{name}/factor", status_code=204, responses=documented(404))
def reset_factor(name: UserName, shared: Shared, who: Manager) -> None:
    """Remove the second factor of a user who has lost it."""
    with shared.database.write() as session:
        second_factor.reset(session, who, shared.clock(), name)


@router.get("/users")
def list_users(shared: Shared, _who: Manager) -> list[UserAnswer]:
    """List all users."""
    with shared.database.read() as session:
        return [_user(each) for each in user.users(session)]


def _user(found: User) -> UserAnswer:
    return UserAnswer.model_validate(found, from_attributes=True)


@router.post("/users", status_code=201, responses=documented(409))
def add_user(body: UserBody, shared: Shared, who: Manager) -> NewPassword:
    """Add a user. The answer has a password for the first login."""
    with shared.database.write() as session:
        made = user.add_user(session, who, shared.clock(), body.name, body.role)
    return NewPassword(name=body.name, password=made)


@router.put("/users/{name}/role", status_code=204, responses=documented(404, 409))
def set_role(name: UserName, body: RoleBody, shared: Shared, who: Manager) -> None:
    """Give a user another role."""
    with shared.database.write() as session:
        user.set_role(session, who, shared.clock(), name, body.role)


@router.post("/users/{name}/password", responses=documented(404, 409))
def reset_password(name: UserName, shared: Shared, who: Manager) -> NewPassword:
    """Make a password for the next login, and end all sessions of the user."""
    with shared.database.write() as session:
        made = user.reset_password(session, who, shared.clock(), name)
    return NewPassword(name=name, password=made)


@router.delete("/users/{name}", status_code=204, responses=documented(404, 409))
def remove_user(name: UserName, shared: Shared, who: Manager) -> None:
    """Remove a user with all its sessions and keys."""
    with shared.database.write() as session:
        user.remove_user(session, who, shared.clock(), name)


@router.get("/roles")
def list_roles(shared: Shared, _who: Manager) -> list[OwnRoleAnswer]:
    """List the roles that were made; admin, operator and auditor always exist."""
    with shared.database.read() as session:
        return [_role(each) for each in own_role.own_roles(session)]


@router.put("/roles/{name}", responses=documented(409))
def put_role(name: RoleName, body: OwnRoleBody, shared: Shared, who: Manager) -> OwnRoleAnswer:
    """Make a role, or change it for all who have it."""
    with shared.database.write() as session:
        now, wanted = shared.clock(), body.permissions
        made = own_role.set_own_role(session, who, now, name, wanted, body.branches)
        return _role(made)


@router.delete("/roles/{name}", status_code=204, responses=documented(404, 409))
def remove_role(name: RoleName, shared: Shared, who: Manager) -> None:
    """Remove a role that nobody has."""
    with shared.database.write() as session:
        own_role.remove_own_role(session, who, shared.clock(), name)


def _role(found: OwnRole) -> OwnRoleAnswer:
    return OwnRoleAnswer.model_validate(found, from_attributes=True)


@router.get("/keys")
def list_keys(shared: Shared, who: Who) -> list[KeyAnswer]:
    """List the caller's API keys; an admin sees all."""
    owner = None if Permission.MANAGE in who.permissions else who.name
    with shared.database.read() as session:
        return [_key(each) for each in key.keys(session, owner)]


def _key(found: ApiKey) -> KeyAnswer:
    return KeyAnswer.model_validate(found, from_attributes=True)


@router.post("/keys", status_code=201)
def add_key(body: KeyBody, shared: Shared, who: Who) -> NewKey:
    """Create an API key, with at most the caller's permissions."""
    if who.key is not None:
        raise Forbidden("a key cannot make keys")
    with shared.database.write() as session:
        lifetime = timedelta(days=body.days)
        made, text = key.add_key(
            session,
            who,
            shared.clock(),
            body.purpose,
            body.permissions,
            lifetime,
            body.branches,
        )
    return NewKey(key=text, **dict(_key(made)))


@router.delete("/keys/{name}", status_code=204, responses=documented(404))
def remove_key(name: Id, shared: Shared, who: Who) -> None:
    """Remove an API key."""
    if who.key is not None and who.key != name:
        raise Forbidden("a key can remove no other key")
    with shared.database.write() as session:
        key.remove_key(session, who, shared.clock(), name)


@router.get("/audit")
def audit_log(
    shared: Shared,
    _who: Auditor,
    after: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[AuditAnswer]:
    """Give entries of the audit log, in order, behind the one with the number `after`."""
    with shared.database.read() as session:
        return [_entry(each) for each in audit.entries(session, after, limit)]


def _entry(found: AuditEntry) -> AuditAnswer:
    return AuditAnswer.model_validate(found, from_attributes=True)


@router.get("/audit/check")
def check_audit(shared: Shared, _who: Auditor) -> AuditCheck:
    """Compute the hashes of the whole audit log and of all versions anew."""
    with shared.database.read() as session:
        found, altered = audit.checked(session), version.altered(session)
    return AuditCheck(
        entries=found.entries, hash=found.hash, broken=found.broken, altered_version=altered
    )
