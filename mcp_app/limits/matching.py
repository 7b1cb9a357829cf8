"""Selection of the rules that hold for a call."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, NamedTuple

from mcp_app.limits.rules import EACH, LEVELS, Bucket, Rule, Who
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.protocol.principal_key import caller_ids, person_of
from mcp_app.protocol.rate_window import client_network

# The plans that one process caches; then it begins again.
REMEMBERED: Final = 10_000


class Caller(NamedTuple):
    """The properties of a caller that rules name."""

    person: str
    key: str = ""
    client: str = ""
    address: str = ""

    @classmethod
    def of(cls, principal: str, address: str = "") -> Caller:
        """Return the caller with a principal key."""
        ids = caller_ids(principal)
        return cls(person_of(principal), ids.api_key, ids.client, address)


class Choice(NamedTuple):
    """A rule that fits a call, and the rule that holds instead of it, or None if it holds itself."""

    rule: Rule
    measure: str
    subject: str
    instead: Rule | None


def toolset_of(path: str) -> str:
    """Return the slug of the toolset at the path of a server, or ""."""
    return path.removeprefix(f"{ENDPOINT}/") if path.startswith(f"{ENDPOINT}/") else ""


def subject_of(rule: Rule, caller: Caller) -> str:
    """Return the subject whose count a call of the caller belongs to, or "" if the rule does not fit."""
    if rule.exempt and (caller.person in rule.exempt or f"key:{caller.key}" in rule.exempt):
        return ""
    if rule.who == Who.INSTALLATION:
        return "all"
    if rule.who == Who.GROUP:
        return f"group:{rule.group}" if caller.person in rule.users else ""
    if rule.who in (Who.USER, Who.MEMBER):
        fits = caller.person in rule.users or (rule.who == Who.USER and rule.who_value == EACH)
        return caller.person if fits else ""
    if rule.who == Who.ADDRESS:
        return _address_of(rule, caller.address)
    found = caller.key if rule.who == Who.KEY else caller.client
    return f"{rule.who}:{found}" if found and rule.who_value in (EACH, found) else ""


def _address_of(rule: Rule, address: str) -> str:
    if not address:
        return ""
    if rule.who_value == EACH:
        return client_network(address)
    try:
        found, network = ip_address(address), ip_network(rule.who_value, strict=False)
    except ValueError:
        return ""
    # A socket for both protocols reports IPv4 clients as ::ffff:192.0.2.7.
    mapped = IPv6Address(f"::ffff:{found}") if isinstance(found, IPv4Address) else found.ipv4_mapped
    return rule.who_value if found in network or (mapped is not None and mapped in network) else ""


def choices(
    rules: Iterable[Rule], caller: Caller, tool: str, tags: Collection[str], toolset: str
) -> list[Choice]:
    """Return all rules that fit a call, and which of them hold.

    For each measure one rule holds at each level of callers. Rules that only observe are chosen apart, so
    that they never replace a rule that is enforced.
    """
    fitting = [
        (rule, measure, subject)
        for rule in rules
        if rule.takes(tool, tags, toolset) and (subject := subject_of(rule, caller))
        for measure in rule.measures()
    ]
    best: dict[tuple[str, int, bool], Rule] = {}
    for rule, measure, _ in fitting:
        place = (measure, LEVELS[Who(rule.who)], rule.observe)
        present = best.get(place)
        if present is None or rule.rank(measure) > present.rank(measure):
            best[place] = rule
    found = []
    for rule, measure, subject in fitting:
        holds = best[measure, LEVELS[Who(rule.who)], rule.observe]
        found.append(Choice(rule, measure, subject, None if holds is rule else holds))
    return found


class RuleSet:
    """The enabled rules of the installation, and the buckets of the calls seen lately."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self.by_address = any(rule.who == Who.ADDRESS for rule in rules)
        self._plans: dict[tuple[str, str, tuple[str, ...], str, str], tuple[Bucket, ...]] = {}

    def buckets(
        self, principal: str, tool: str, tags: Collection[str], path: str, address: str = ""
    ) -> tuple[Bucket, ...]:
        """Return the counts of a call: at most one for each measure and level, observed ones last."""
        asked = (principal, tool, tuple(tags), path, address)
        found = self._plans.get(asked)
        if found is None:
            caller = Caller.of(principal, address)
            chosen = choices(self.rules, caller, tool, tags, toolset_of(path))
            kept = [Bucket(each.rule, each.measure, each.subject) for each in chosen if each.instead is None]
            kept.sort(key=lambda each: (each.rule.observe, LEVELS[Who(each.rule.who)], each.measure))
            if len(self._plans) >= REMEMBERED:
                self._plans.clear()
            found = self._plans[asked] = tuple(kept)
        return found
