"""The inputs of one run of a 2026-07-28 call: results of earlier runs, new answers and open questions.

On that revision a question ends the request. The answer arrives with a new request, which runs the same
code from the start. Therefore answers, and results of ``Context.once``, are stored by key and reused.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self

import orjson

from mcp_app.protocol.features.input_required import KINDS, check_key

Wire = dict[str, Any]
REMEMBERED = ("bound", "answers", "questions", "done", "single_use", "approved", "rounds")
# The rounds of a call that limits do not count again. Without a bound, a client that never answers could
# repeat the code before a question for as long as it likes.
FREE_ROUNDS = 20


@dataclass(slots=True, kw_only=True)
class Inputs:
    """The inputs of one run of a call's code.

    ``bound`` is the digest of the request, which is the same for all runs of the call. ``responses`` are
    the client's new answers, which must not be trusted. A response that is valid for its question moves to
    ``answers``. ``questions`` maps the key of each question to its fingerprint. ``nonce`` is set if the
    request came with a single-use state. The server still has to check that the state was not used before.

    ``requests`` are the questions that this run could not answer. ``refused`` holds the keys whose answers
    were invalid. ``effects`` are running calls of ``Context.once``, which a question must not interrupt.
    ``approved`` is the approval that an operator gave in an earlier run. ``kept`` is True if the server
    stores the state in the row of a task and not with the client. ``round`` is the nonce of the state that
    the client sent, single-use or not. It is "" after FREE_ROUNDS. ``rounds`` is the number of earlier runs.
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
    round: str = ""
    rounds: int = 0
    requests: dict[str, Wire] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    effects: set[object] = field(default_factory=set)
    _used: set[str] = field(default_factory=set)

    def remembered(self) -> Wire:
        """Return the state that the next run needs, as JSON."""
        return {**{name: getattr(self, name) for name in REMEMBERED}, "rounds": self.rounds + 1}

    @classmethod
    def recalled(cls, remembered: Wire, responses: dict[str, Wire]) -> Self:
        """Build the next run's inputs from the previous run's state and the client's new answers."""
        # Read members by name, because the state may come from another version of this code.
        known = {name: remembered[name] for name in REMEMBERED if name in remembered}
        return cls(responses=responses, **known)

    def stored(self) -> Wire:
        """Return the state and the responses, so that another process can run the code."""
        return {"remembered": self.remembered(), "responses": self.responses}

    @classmethod
    def restored(cls, stored: Wire) -> Self:
        """Build the inputs from a value returned by ``stored``."""
        return cls.recalled(stored["remembered"], stored["responses"])

    def approve(self, approval: str) -> None:
        """Store an operator's approval for all further runs.

        The state of each such run becomes single-use.
        """
        self.approved, self.single_use = approval, True

    def key_of(self, method: str, given: str) -> str:
        """Return the next question's key: the given key, or a numbered key that is the same in every run.

        Raise ValueError if another question of this run has the key.
        """
        numbered = (f"{KINDS[method]}-{number}" for number in count(1))
        key = check_key(given) if given else next(each for each in numbered if each not in self._used)
        if key in self._used:
            raise ValueError(f"Two questions of one call have the key {key!r}: give each its own.")
        self._used.add(key)
        return key

    def answer(self, key: str, method: str, params: Wire) -> Wire | None:
        """Return the client's answer to a question, or None.

        An answer to a form or link that has changed since is rejected, because the user agreed to something
        else.
        """
        fingerprint = _fingerprint(method, params)
        if self.questions.setdefault(key, fingerprint) != fingerprint:
            self.questions[key] = fingerprint
            self.answers.pop(key, None)
            self.refused.add(key)
            return None
        return self.answers.get(key) or self.responses.get(key)

    def accept(self, key: str, answer: Wire) -> None:
        """Accept a valid answer for this run and all further runs."""
        self.answers[key] = answer

    def refuse(self, key: str) -> None:
        """Reject an invalid answer, so that the question is asked again (MRTR-14)."""
        self.answers.pop(key, None)
        self.refused.add(key)

    def store_result(self, key: str, value: Any, *, single_use: bool) -> None:
        """Store the result of ``Context.once``. Raise TypeError for a value that JSON cannot represent."""
        self.done[key] = orjson.loads(orjson.dumps(value))
        self.single_use = self.single_use or single_use

    def leave_open(self, key: str, method: str, params: Wire) -> None:
        """Add a question that the client still has to answer. Raise TypeError if it cannot be sent."""
        # Copy and encode now: the code may change the params later, and if they cannot be encoded, the code
        # must get the error.
        self.requests[key] = {"method": method, "params": orjson.loads(orjson.dumps(params))}


def _fingerprint(method: str, params: Wire) -> str:
    """Return the digest of an elicitation, which must not change before it is answered, or "".

    Questions of other kinds may change.
    """
    if method != "elicitation/create":
        return ""
    return hashlib.sha256(orjson.dumps(params, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
