"""Subjects of commits: the rules, and what they are applied to.

``python -m tests.architecture.subjects`` checks the commits of this clone after ``SINCE``. With a file as its
argument it checks the message in that file, as the ``commit-msg`` hook of git does.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The commits up to this one are older than the rules.
SINCE = "13bfbe251b21932b28c5b1536303a8242f183190"
WIDTH = 72

WORD = re.compile(r"[A-Z][a-z]*(-[a-z]+)*(?=\s|$)")
# "Added", "Adding", "Adds", but not "Feed" or "Pass".
INFLECTED = re.compile(r".*([^e]ed|ing|[^s]s)")
BASE_FORMS = {"Alias", "Bias", "Bring", "Cling", "Embed", "Focus", "Ping", "Ring", "Shed", "Spring", "String"}
# First words of subjects that state a fact instead of giving an order.
NO_VERB = re.compile(
    "A|All|Also|An|And|Any|Are|As|At|Both|But|By|Each|Every|Few|For|From|He|How|If|In|Into|It|Its|Large|Many|More|"
    "Most|New|No|Not|Now|Of|On|One|Only|Or|Other|Our|Over|She|Several|Small|Some|That|The|Their|There|These|They|"
    "This|Those|To|Two|We|What|When|Where|Whether|Which|While|Who|Whoever|Why|With|Without|You|Your"
)
MADE_BY_GIT = re.compile(
    r"Merge (branch|branches|commit|pull request|remote-tracking|tag)\b|(amend|fixup|squash)! "
)


def faults(subject: str) -> Iterator[str]:
    """Yield what is wrong with a subject, in words for its author."""
    if len(subject) > WIDTH:
        yield f"{len(subject)} characters, at most {WIDTH}"
    if subject.endswith("."):
        yield "a full stop at the end"
    word = WORD.match(subject)
    if word is None:
        yield "does not begin with a verb that has a capital letter"
    elif NO_VERB.fullmatch(word[0]) or (INFLECTED.fullmatch(word[0]) and word[0] not in BASE_FORMS):
        yield f'"{word[0]}" is not an imperative: begin with a verb, such as "Add" or "Refuse"'


def subject_of(message: str) -> str:
    """Return the first paragraph of a message on one line, without git's comments."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    return " ".join("\n".join(lines).strip().partition("\n\n")[0].split())


def new_subjects(root: Path = ROOT, since: str = SINCE) -> list[str] | None:
    """Return the subjects after ``since``, or None where the history does not reach so far.

    Merges are left out. A shallow clone that was cut off after ``since`` has new commits only.
    """
    if _git(root, "rev-parse", "--show-prefix") != "":  # Not a repository, or a folder inside another one.
        return None
    if _git(root, "cat-file", "-e", f"{since}^{{commit}}") is not None:
        commits = f"{since}..HEAD"
    elif _git(root, "rev-parse", "--is-shallow-repository") == "true":
        commits = "HEAD"
    else:
        return None
    return (_git(root, "log", "--no-merges", "--format=%s", commits) or "").splitlines()


def _git(root: Path, *arguments: str) -> str | None:
    """Return the output of a git command, or None if it fails or git is not installed."""
    try:
        done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def main(files: list[str]) -> int:
    """Print the faults of the messages in files, or of new commits, and return the exit status."""
    if files:
        subjects = [subject_of(Path(file).read_text()) for file in files]
        found = [subject for subject in subjects if not MADE_BY_GIT.match(subject)]
    elif (new := new_subjects()) is None:
        print("The history of this folder is not here: subjects of commits are not checked.")
        return 0
    else:
        found = new
    lines = [f"{subject}\n    {fault}" for subject in found for fault in faults(subject)]
    print(*lines, sep="\n", end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
