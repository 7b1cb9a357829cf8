"""The words of tools and of queries: split, reduced to their stems, and widened by synonyms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

# The first words of a description say what a tool does. A query is a sentence.
MAX_WORDS: Final = 80
# Names are written as open_issue, openIssue, open-issue or HTTPServer.
_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD: Final = re.compile(r"[^\W\d_]+|\d+")
_SILENT: Final = frozenset(
    word
    for line in (
        "a an the of to in on at by for from with as and or if so than then too very just",
        "is are be was were been has have had do does did done can could will would should shall may might",
        "must not no it its this that these those there here into over under all any some each one about",
        "we our us you your he his she her they them their please want need let",
        "what which who whom whose how when where why",
    )
    for word in line.split()
)
# Words that stand for the same step in most APIs. The first word replaces the others.
_SYNONYMS: Final = (
    "create add new make open insert register post build",
    "delete remove drop destroy erase unset",
    "list show display enumerate browse",
    "get read fetch retrieve view look",
    "update edit change modify set patch replace close reopen rename",
    "find search query lookup",
    "start run trigger launch execute dispatch begin",
    "stop cancel abort halt",
    "send submit deliver",
    "authenticated current logged i me my mine myself",
    "user person people someone somebody anyone",
    "organization organisation org company",
    "repository repo",
    "pull pr",
    "permission permissions privilege right",
    "membership member",
    "file content",
    "dependency dependabot package library",
    "comment reply answer",
    "webhook hook",
)
_SAME: Final = {word: line.split()[0] for line in _SYNONYMS for word in line.split()}


def words_of(text: str) -> Iterator[str]:
    """Yield the stems of a text's words, in its order."""
    for number, match in enumerate(_WORD.finditer(_HUMPS.sub(" ", text))):
        if number == MAX_WORDS:
            return
        word = match[0].lower()
        if word not in _SILENT:
            yield stem(word)


def synonym_of(word: str) -> str:
    """Return the word that stands for a stem and its synonyms, or ""."""
    return _BY_STEM.get(word, "")


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Return a word without the ending of its plural, its past or its ``-ing`` form.

    Both texts and queries are reduced in the same way, so a stem need not be a word.
    """
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if len(word) > len(ending) + 3 and word.endswith(ending):
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    if len(word) > 6 and word.endswith(("er", "or")):
        word = word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


_BY_STEM: Final = {stem(word): f"={first}" for word, first in _SAME.items()}
