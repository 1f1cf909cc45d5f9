from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard.sign_in import Rules, person, read_rules, values_of
from domain.errors import UsageError

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
RULES = Rules(operators=("ops",), viewers=("staff",))


def claims(**more: Any) -> dict[str, Any]:
    return {"is_logged_in": True, "name": "Vera", "iat": int((NOW - timedelta(hours=1)).timestamp()), **more}


@pytest.mark.parametrize(
    ("groups", "role"),
    [(["ops"], "operator"), (["staff", "ops"], "operator"), ("staff", "viewer"), (["others"], None), (None, None), ([7], None)],
)  # fmt: skip
def test_a_claims_values_give_the_role(groups: Any, role: str | None) -> None:
    found = person(claims(groups=groups), RULES, NOW)
    assert (found.name, found.role, found.signed_in) == ("Vera", role, True)
    assert bool(found.why) == (role is None)


def test_without_a_list_of_viewers_everybody_who_signs_in_views() -> None:
    rules = Rules(operators=("ops",))
    assert person(claims(), rules, NOW).role == "viewer"
    assert person(claims(groups=["ops"]), rules, NOW).role == "operator"


def test_nobody_is_an_operator_whom_no_rule_names() -> None:
    assert person(claims(groups=["admin", "operator", ""]), Rules(), NOW).role == "viewer"


def test_who_is_not_signed_in_has_no_role() -> None:
    for told in ({}, {"is_logged_in": False}, claims(is_logged_in=False, groups=["ops"])):
        assert person(told, RULES, NOW).role is None


def test_a_sign_in_ends() -> None:
    old = claims(groups=["ops"], iat=int((NOW - timedelta(hours=13)).timestamp()))
    found = person(old, RULES, NOW)
    assert (found.role, found.signed_in) == (None, False)
    assert "expired" in (found.why or "")
    assert person(old, Rules(operators=("ops",), hours=24), NOW).role == "operator"


@pytest.mark.parametrize("iat", [None, "soon", True])
def test_a_sign_in_of_unknown_time_counts_no_more(iat: Any) -> None:
    assert person(claims(groups=["ops"], iat=iat), RULES, NOW).role is None


def test_claims_are_found_by_dots_and_by_names_that_hold_dots() -> None:
    assert values_of({"realm_access": {"roles": ["a", "b"]}}, "realm_access.roles") == {"a", "b"}
    assert values_of({"https://acme.example/roles": ["a"]}, "https://acme.example/roles") == {"a"}
    assert values_of({"realm_access": "a"}, "realm_access.roles") == frozenset()


def test_an_address_counts_only_where_it_is_verified() -> None:
    assert values_of({"email": "a@b.example", "email_verified": True}, "email") == {"a@b.example"}
    for unverified in (False, None, "true"):
        assert values_of({"email": "a@b.example", "email_verified": unverified}, "email") == frozenset()


@pytest.mark.parametrize("section", [{"claims": "x"}, {"operators": "ops"}, {"hours": 0}, {"hours": "many"}])
def test_rules_that_are_not_understood_are_refused(section: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        read_rules(section)
    assert refused.value.remedy


def test_rules_are_read() -> None:
    assert read_rules({"operators": ["ops"], "hours": 8}) == Rules(operators=("ops",), hours=8)
