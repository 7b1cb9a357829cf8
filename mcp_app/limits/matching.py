"""Selection of the rules that hold for a call."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, NamedTuple

from mcp_app.limits.rules import EACH, LEVELS, Bucket, Rule, What, Who
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.protocol.principal_key import caller_ids, person_of
from mcp_app.protocol.rate_window import client_network


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
    """The enabled rules of the installation, and the buckets of the calls seen lately.

    Rules are indexed by their tools and by their callers, so that rules for others cost a call nothing.
    """

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self.by_address = any(rule.who == Who.ADDRESS for rule in rules)
        # By principal, tool, path and address, as ``current.buckets_of`` stores them.
        self.plans: dict[Hashable, tuple[Bucket, ...]] = {}
        self._index: dict[tuple[str, str], _OfTools] = {}
        for rule in self.rules:
            self._index.setdefault((rule.what, rule.what_value), _OfTools()).add(rule)

    def buckets(self, principal: str, tool: Any, path: str, address: str = "") -> tuple[Bucket, ...]:
        """Return the counts of a call: at most one for each measure and level, observed ones last."""
        caller, toolset = Caller.of(principal, address), toolset_of(path)
        places = {(What.EVERYTHING, ""), (What.TOOL, tool.name), (What.TOOLSET, toolset)}
        places.update((What.TAG, tag) for tag in tool.tags)
        indexed = [self._index[place] for place in places if place in self._index]
        rules = [rule for each in indexed for rule in each.of_caller(caller)]
        if (own := Rule.of_tool(tool)) is not None:
            rules.append(own)
        chosen = choices(rules, caller, tool.name, tool.tags, toolset)
        kept = [Bucket(each.rule, each.measure, each.subject) for each in chosen if each.instead is None]
        kept.sort(key=lambda each: (each.rule.observe, LEVELS[Who(each.rule.who)], each.measure))
        return tuple(kept)


class _OfTools:
    """The rules for some tools: those of one caller by its name, those of groups, and all others."""

    __slots__ = ("groups", "named", "others")

    def __init__(self) -> None:
        self.named: dict[str, list[Rule]] = {}
        self.groups: dict[Collection[str], list[Rule]] = {}
        self.others: list[Rule] = []

    def add(self, rule: Rule) -> None:
        if rule.who in (Who.GROUP, Who.MEMBER):
            self.groups.setdefault(rule.users, []).append(rule)
        elif rule.who_value == EACH or rule.who in (Who.INSTALLATION, Who.ADDRESS):
            self.others.append(rule)
        elif rule.who == Who.USER:
            for person in rule.users:
                self.named.setdefault(person, []).append(rule)
        else:
            self.named.setdefault(f"{rule.who}:{rule.who_value}", []).append(rule)

    def of_caller(self, caller: Caller) -> Iterator[Rule]:
        """Yield the rules that may fit a caller."""
        yield from self.others
        for name in (caller.person, f"key:{caller.key}", f"client:{caller.client}"):
            yield from self.named.get(name, ())
        for people, rules in self.groups.items():
            if caller.person in people:
                yield from rules
