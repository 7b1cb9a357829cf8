"""The inputs of one round of a 2026-07-28 call: results of earlier rounds, new answers and open questions.

On that revision each question ends the request, and the answer arrives with a new request that runs the same
code from the start. So answers and results of ``Context.once`` are stored by key and reused.
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
    """The inputs of one run of a call's code.

    ``bound`` is the digest of the request, which all rounds share. ``responses`` are new and untrusted. A
    response that fits its question moves to ``answers``. ``questions`` maps keys to the fingerprints of the
    questions asked. ``nonce`` belongs to a single-use state that still has to be checked.

    ``requests`` are the questions this run leaves open, ``refused`` the keys whose answers were rejected.
    ``effects`` are running calls of ``Context.once``, which a question must not interrupt. ``approved`` is
    the approval of an earlier round by an operator. ``kept`` is True if the server stores the state in a
    task's row, instead of the client.
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
        """Return the state that the next round needs, as JSON."""
        return {name: getattr(self, name) for name in REMEMBERED}

    @classmethod
    def recalled(cls, remembered: Wire, responses: dict[str, Wire]) -> Self:
        """Build the inputs of the next run from the state of this one and the client's new answers."""
        # By name, because another version of this code may have sealed the state.
        known = {name: remembered[name] for name in REMEMBERED if name in remembered}
        return cls(responses=responses, **known)

    def stored(self) -> Wire:
        """Return the state and responses that another process needs to run this round."""
        return {"remembered": self.remembered(), "responses": self.responses}

    @classmethod
    def restored(cls, stored: Wire) -> Self:
        """Build the inputs from the value of ``stored``."""
        return cls.recalled(stored["remembered"], stored["responses"])

    def approve(self, approval: str) -> None:
        """Store an operator's approval for all further rounds. Each of them can then run only once."""
        self.approved, self.single_use = approval, True

    def key_of(self, method: str, given: str) -> str:
        """Return the key of the next question: the given key, or a number that is the same in every run.

        Raise ValueError if another question of this run has that key.
        """
        numbered = (f"{KINDS[method]}-{number}" for number in count(1))
        key = check_key(given) if given else next(each for each in numbered if each not in self._used)
        if key in self._used:
            raise ValueError(f"Two questions of one call have the key {key!r}: give each its own.")
        self._used.add(key)
        return key

    def answer(self, key: str, method: str, params: Wire) -> Wire | None:
        """Return the client's answer to a question, or None.

        Consent to one question is not consent to another: an answer to a form or link that changed since is
        rejected.
        """
        fingerprint = _fingerprint(method, params)
        if self.questions.setdefault(key, fingerprint) != fingerprint:
            self.questions[key] = fingerprint
            self.answers.pop(key, None)
            self.refused.add(key)
            return None
        return self.answers.get(key) or self.responses.get(key)

    def accept(self, key: str, answer: Wire) -> None:
        """Accept a valid answer for this and all further rounds."""
        self.answers[key] = answer

    def refuse(self, key: str) -> None:
        """Reject an answer that does not fit, so that the question is asked again (MRTR-14)."""
        self.answers.pop(key, None)
        self.refused.add(key)

    def note(self, key: str, value: Any, *, single_use: bool) -> None:
        """Store the result of ``Context.once``. Raise TypeError for a value without a JSON form."""
        self.done[key] = orjson.loads(orjson.dumps(value))
        self.single_use = self.single_use or single_use

    def leave_open(self, key: str, method: str, params: Wire) -> None:
        """Add a question that this run needs answered. Raise TypeError if it cannot be sent."""
        # Copy and encode now: code may change the params later, and must get the error if they cannot be
        # encoded.
        self.requests[key] = {"method": method, "params": orjson.loads(orjson.dumps(params))}


def _fingerprint(method: str, params: Wire) -> str:
    """Return a digest of an elicitation, which must not change until the answer.

    Other questions may change.
    """
    if method != "elicitation/create":
        return ""
    return hashlib.sha256(orjson.dumps(params, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
