"""What a call of 2026-07-28 knows of its earlier rounds, what its client answered now, and what it asks.

There each question ends the request, and the answer comes with a new one that runs the same code from the
top. So what a round learned is kept by key and given again: answers, and the results of ``Context.once``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self

import orjson

from mcp_app.protocol.features.input_required import KINDS, check_key

Wire = dict[str, Any]
REMEMBERED = ("bound", "answers", "questions", "done", "single_use", "approved")


@dataclass(slots=True, kw_only=True)
class Inputs:
    """Of one run of a call's code.

    ``bound`` is the digest of what is asked for, which all rounds share. ``responses`` are new and untrusted;
    one that fits its question moves to ``answers``. ``questions`` are the fingerprints of what was asked by
    key. ``nonce`` is that of a state which counts only once and still has to be checked. ``requests`` is what
    this run leaves open, ``refused`` the keys in it that had an answer which does not count. ``effects`` of
    ``Context.once`` are under way, which a question must not break off. ``approved`` is the approval that an
    operator gave to an earlier round. ``kept``: it is the server that remembers, in a task's row,
    and not the client.
    """

    bound: str = ""
    responses: dict[str, Wire] = field(default_factory=dict)
    answers: dict[str, Wire] = field(default_factory=dict)
    questions: dict[str, str] = field(default_factory=dict)
    done: dict[str, Any] = field(default_factory=dict)
    single_use: bool = False
    kept: bool = False
    approved: str = ""
    nonce: str = ""
    requests: dict[str, Wire] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    effects: set[object] = field(default_factory=set)
    _used: set[str] = field(default_factory=set)

    def remembered(self) -> Wire:
        """What the next round needs of this one, as JSON."""
        return {name: getattr(self, name) for name in REMEMBERED}

    @classmethod
    def recalled(cls, remembered: Wire, responses: dict[str, Wire]) -> Self:
        """The inputs of the next run, from what this one remembered and the client's new answers."""
        # By name: what it was sealed by may be another version of this code.
        known = {name: remembered[name] for name in REMEMBERED if name in remembered}
        return cls(responses=responses, **known)

    def stored(self) -> Wire:
        """All that another process needs to run this round."""
        return {"remembered": self.remembered(), "responses": self.responses}

    @classmethod
    def restored(cls, stored: Wire) -> Self:
        """The inputs that ``stored`` contains."""
        return cls.recalled(stored["remembered"], stored["responses"])

    def approve(self, approval: str) -> None:
        """Keep an operator's approval for all further rounds, each of which can then run only once."""
        self.approved, self.single_use = approval, True

    def key_of(self, method: str, given: str) -> str:
        """The key of the next question: the one given, or a number that is the same in every run.

        Raises ValueError when a question of this run has that key.
        """
        numbered = (f"{KINDS[method]}-{number}" for number in count(1))
        key = check_key(given) if given else next(each for each in numbered if each not in self._used)
        if key in self._used:
            raise ValueError(f"Two questions of one call have the key {key!r}: give each its own.")
        self._used.add(key)
        return key

    def answer(self, key: str, method: str, params: Wire) -> Wire | None:
        """The client's answer to a question, None without. Consent to one thing is none to another:

        what was answered to a form or link that has changed since does not count.
        """
        fingerprint = _fingerprint(method, params)
        if self.questions.setdefault(key, fingerprint) != fingerprint:
            self.questions[key] = fingerprint
            self.answers.pop(key, None)
            self.refused.add(key)
            return None
        return self.answers.get(key) or self.responses.get(key)

    def accept(self, key: str, answer: Wire) -> None:
        """The answer fits its question: it counts from now on, in all rounds."""
        self.answers[key] = answer

    def refuse(self, key: str) -> None:
        """The answer does not fit: the question is asked again (MRTR-14)."""
        self.answers.pop(key, None)
        self.refused.add(key)

    def note(self, key: str, value: Any, *, single_use: bool) -> None:
        """What ``Context.once`` came to; raises TypeError for what has no form in JSON."""
        self.done[key] = orjson.loads(orjson.dumps(value))
        self.single_use = self.single_use or single_use

    def leave_open(self, key: str, method: str, params: Wire) -> None:
        """This run cannot go on without an answer to this; raises TypeError for what cannot be sent."""
        # A copy, and encoded now: code may change what it passed, and must get an error for what JSON cannot
        # hold.
        self.requests[key] = {"method": method, "params": orjson.loads(orjson.dumps(params))}


def _fingerprint(method: str, params: Wire) -> str:
    """What must not change between question and answer; what a model is asked may hold the time of day."""
    if method != "elicitation/create":
        return ""
    return hashlib.sha256(orjson.dumps(params, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
