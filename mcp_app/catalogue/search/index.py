"""An index of tools by the words that describe them (BM25F; Robertson and Zaragoza, 2009)."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from mcp_app.catalogue.search.words import synonym_of, words_of

# Saturation of repeated words, and the influence of a text's length.
K1: Final = 1.2
B: Final = 0.4
# A synonym says less than the word itself.
SYNONYM: Final = 0.6
# A title whose words are all in the query counts more than one that says more.
TITLE: Final = 2.0


@dataclass(frozen=True, slots=True)
class Described:
    """A tool as it is searched. ``keywords`` are an administrator's words, for which it must be found."""

    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    keywords: str = ""

    def fields(self) -> Iterable[tuple[float, str]]:
        """Yield the texts with their weights."""
        yield 3.0, self.name
        yield 3.0, self.title
        yield 1.0, self.description
        yield 0.5, " ".join(self.arguments)
        yield 1.0, " ".join(self.tags)
        yield 4.0, self.keywords


class Found(NamedTuple):
    """A tool that was found, and the share of the query's words that it has, weighted by their rarity."""

    name: str
    fit: float


class ToolIndex:
    """An immutable index of tools."""

    def __init__(self, tools: Iterable[Described]) -> None:
        """Index the tools. The texts of 2,000 tools take about half a second of processor time."""
        counted = [(tool, _weighted(tool)) for tool in tools]
        self.names = tuple(tool.name for tool, _ in counted)
        lengths = [sum(words.values()) for _, words in counted]
        usual = sum(lengths) / len(lengths) if lengths else 1.0
        postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        for place, (_, words) in enumerate(counted):
            norm = K1 * (1 - B + B * lengths[place] / usual)
            for word, weight in words.items():
                postings[word].append((place, weight / (weight + norm)))
        self._rarity = {word: self._idf(len(found)) for word, found in postings.items()}
        # Two arrays for each word, which take a fifth of the memory of tuples.
        self._postings = {
            word: (array("I", (place for place, _ in found)), array("f", (score for _, score in found)))
            for word, found in postings.items()
        }
        self._words = [frozenset(words) for _, words in counted]
        self._titles = [self._shares(tool) for tool, _ in counted]

    def find(self, query: str) -> list[Found]:
        """Return the tools that have words of a query, best first."""
        asked = dict.fromkeys(words_of(query), 1.0)
        for same in filter(None, map(synonym_of, list(asked))):
            asked[same] = SYNONYM
        scores: defaultdict[int, float] = defaultdict(float)
        for word, weight in asked.items():
            if (posting := self._postings.get(word)) is not None:
                factor = weight * self._rarity[word]
                for place, part in zip(*posting, strict=True):
                    scores[place] += factor * part
        meant = {synonym_of(word) or word for word in asked}
        for place in scores:
            titles = self._titles[place]
            scores[place] *= 1 + TITLE * sum(titles.get(word, 0.0) for word in meant)
        # Of equal tools the first comes first.
        best = sorted(scores, key=lambda place: (-scores[place], place))
        return [Found(self.names[place], self._fit(meant, place)) for place in best]

    def _fit(self, meant: Collection[str], place: int) -> float:
        """Return the share of a query's words that a tool has. Rare and unknown words count more."""
        unknown = self._idf(0)
        rarity = {word: self._rarity.get(word, unknown) for word in meant}
        own = sum(rarity[word] for word in meant if word in self._words[place])
        return own / sum(rarity.values())

    def _idf(self, tools: int) -> float:
        return math.log(1 + (len(self.names) - tools + 0.5) / (tools + 0.5))

    def _shares(self, tool: Described) -> dict[str, float]:
        """Return the share of each word in what the title says. Rare words say more."""
        words = {synonym_of(word) or word for word in words_of(tool.title or tool.name)}
        rarity = {word: self._rarity[word] for word in words}
        total = sum(rarity.values())
        return {word: each / total for word, each in rarity.items()} if total else {}


def _weighted(tool: Described) -> Counter[str]:
    found: Counter[str] = Counter()
    for weight, text in tool.fields():
        for word in words_of(text):
            found[word] += weight  # type: ignore[assignment]
            if same := synonym_of(word):
                found[same] += weight  # type: ignore[assignment]
    return found
