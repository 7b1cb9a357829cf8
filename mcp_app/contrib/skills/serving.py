"""Skills as resources, and the methods of the extension that lists them (SEP-2640)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from django.conf import settings as django_settings

from mcp_app import Context, ToolError, conf, extension, resource
from mcp_app.contrib.skills.folders import MANIFEST, Skill, SkillFile
from mcp_app.protocol.messages.pagination import CursorCodec

DIRECTORY: Final = "inode/directory"
# A page ends with the entry that reaches this number of files, because entries are never split.
MOST_FILES_OF_A_PAGE: Final = 2_000

Resource = dict[str, Any]


class Skills:
    """The skills of this installation, with access checks per caller."""

    def __init__(self, skills: Mapping[str, Skill]) -> None:
        self._skills = skills
        self._folders: dict[str, dict[str, Resource]] = {}
        self._cursors = CursorCodec(django_settings.SECRET_KEY.encode())
        for skill in skills.values():
            for file in skill.files:
                self._enter(skill.uri.removesuffix(f"/{MANIFEST}"), file)

    def _enter(self, root: str, file: SkillFile) -> None:
        """Add a file to its folder, and each folder to its parent, up to the skill's folder."""
        child: Resource = {
            "uri": file.uri,
            "name": file.name,
            "mimeType": file.mime_type,
            "size": len(file.data),
        }
        while child["uri"] != root:
            folder = child["uri"].rpartition("/")[0]
            self._folders.setdefault(folder, {})[child["uri"]] = child
            child = {"uri": folder, "name": folder.rpartition("/")[2], "mimeType": DIRECTORY}

    @property
    def files(self) -> Iterator[tuple[SkillFile, Skill | None]]:
        """Each file once, with the skill whose manifest the file is, or None for other files."""
        seen = {file.uri: file for skill in self._skills.values() for file in skill.files}
        yield from ((file, self._skills.get(uri)) for uri, file in sorted(seen.items()))

    def get(self, ctx: Context, uri: str) -> dict[str, Any]:
        """Return the entry of a skill. Raises ToolError if the skill does not exist for this caller."""
        skill = self._skills.get(uri)
        if skill is None or not _may_see(ctx, skill):
            raise ToolError("There is no such skill.")
        return skill.entry

    def page(self, ctx: Context, cursor: str | None) -> dict[str, Any]:
        """Return the page of skills after a cursor, without skills that the caller may not read."""
        after = self._after("skills", cursor)
        entries: list[dict[str, Any]] = []
        files = 0
        for uri, skill in self._skills.items():
            if uri <= after or not _may_see(ctx, skill):
                continue
            if len(entries) >= conf.get().page_size or files >= MOST_FILES_OF_A_PAGE:
                return {"skills": entries, "nextCursor": self._cursor("skills", entries[-1]["uri"])}
            entries.append(skill.entry)
            files += len(skill.files)
        return {"skills": entries}

    def folder(self, ctx: Context, uri: str, cursor: str | None) -> dict[str, Any]:
        """Return the contents of a folder. Raises ToolError if the folder does not exist for this caller."""
        if not self._is_there(ctx, uri):
            raise ToolError("There is no such directory.")
        after = self._after(uri, cursor)
        children = [
            child for name, child in sorted(self._folders[uri].items()) if self._is_visible(ctx, child)
        ]
        rest = [child for child in children if child["uri"] > after]
        page = rest[: conf.get().page_size]
        more = {"nextCursor": self._cursor(uri, page[-1]["uri"])} if len(rest) > len(page) else {}
        return {"resources": page, **more}

    def _is_there(self, ctx: Context, folder: str) -> bool:
        return any(self._is_visible(ctx, child) for child in self._folders.get(folder, {}).values())

    def _is_visible(self, ctx: Context, child: Resource) -> bool:
        uri = child["uri"]
        return self._is_there(ctx, uri) if child["mimeType"] == DIRECTORY else ctx.may_read(uri)

    def _after(self, scope: str, cursor: str | None) -> str:
        return "" if cursor is None else self._cursors.decode("skills", scope, cursor)[0]

    def _cursor(self, scope: str, after: str) -> str:
        return self._cursors.encode("skills", after, scope, 0)


def _may_see(ctx: Context, skill: Skill) -> bool:
    """Return True if the caller may read all files of a skill.

    The client could not verify a skill if a file were hidden from it.
    """
    return all(ctx.may_read(file.uri) for file in skill.files)


def offer(skills: Skills) -> None:
    """Register the files of skills as resources, and the extension that lists the skills."""
    for file, skill in skills.files:
        _offer_file(file, skill)
    # Clients call its methods without declaring the extension, as the SEP specifies.
    found = extension("io.modelcontextprotocol/skills", settings={"directoryRead": True}, declared_only=False)

    @found.method("skills/list", cacheable=True)
    async def skills_list(ctx: Context, cursor: str | None = None) -> dict[str, Any]:
        return skills.page(ctx, cursor)

    @found.method("skills/get", cacheable=True)
    async def skills_get(ctx: Context, uri: str) -> dict[str, Any]:
        return {"skill": skills.get(ctx, uri)}

    @found.method("resources/directory/read", cacheable=True)
    async def directory_read(ctx: Context, uri: str, cursor: str | None = None) -> dict[str, Any]:
        return skills.folder(ctx, uri, cursor)


def _offer_file(file: SkillFile, skill: Skill | None) -> None:
    matter = skill.frontmatter if skill is not None else {}

    @resource(
        file.uri,
        name=matter.get("name") or file.name,
        description=matter.get("description", ""),
        mime_type=file.mime_type,
        size=len(file.data),
    )
    async def skill_file() -> str | bytes:
        return file.content
