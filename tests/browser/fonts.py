"""Makes the small fonts of the skin from its large ones: ``python -m tests.browser.fonts``.

Needs requirements-pictures.txt. Text fonts get the Latin letters of Inter; the icon font gets icons
whose names are words of the pages or of the skin.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import unfold
from fontTools import subset

ROOT: Final = Path(__file__).resolve().parents[2]
OURS: Final = ROOT / "mcpsite" / "skin" / "unfold" / "fonts"
WEIGHTS: Final = ("Regular", "Medium", "SemiBold", "Bold")
WORD: Final = re.compile(r"(?<![\w-])[a-z0-9_]{3,}(?![\w-])")


def main() -> None:
    """Write all fonts."""
    package = Path(unfold.__path__[0])
    fonts = package / "static" / "unfold" / "fonts"
    # The same characters as in the style sheet.
    said = re.search(r"unicode-range: (U\+20-[^;]+)", (OURS / "inter" / "styles.css").read_text())
    assert said is not None
    letters = subset.parse_unicodes(said[1].replace("U+", ""))
    for weight in WEIGHTS:
        _keep(
            fonts / f"inter/Inter-{weight}.woff2",
            OURS / f"inter/Inter-Latin-{weight}.woff2",
            unicodes=letters,
        )
    symbols = fonts / "material-symbols" / "Material-Symbols-Outlined.woff2"
    icons = _ligatures(symbols)
    used = [icons[word] for word in sorted(_words(package) & icons.keys())]
    text = "abcdefghijklmnopqrstuvwxyz0123456789_"
    _keep(symbols, OURS / "material-symbols" / "Used.woff2", glyphs=used, text=text)


def _keep(large: Path, small: Path, **what: Any) -> None:
    closure = "glyphs" not in what
    options = subset.Options(flavor="woff2", hinting=False, notdef_outline=True, layout_closure=closure)
    options.layout_features = ["kern", "liga", "rlig", "calt", "ccmp", "locl", "mark", "mkmk", "tnum", "case"]
    options.drop_tables += ["FFTM"]
    font = subset.load_font(str(large), options)
    chosen = subset.Subsetter(options)
    chosen.populate(**what)
    chosen.subset(font)
    subset.save_font(font, str(small), options)


def _ligatures(path: Path) -> dict[str, str]:
    """Return the glyph of each icon by its name."""
    font = subset.load_font(str(path), subset.Options())
    letters: dict[str, str] = {}
    for code, glyph in font.getBestCmap().items():
        if glyph not in letters or chr(code).islower():
            letters[glyph] = chr(code)
    found = {}
    for lookup in font["GSUB"].table.LookupList.Lookup:
        for table in lookup.SubTable:
            for first, ligatures in getattr(getattr(table, "ExtSubTable", table), "ligatures", {}).items():
                for each in ligatures:
                    word = "".join(letters.get(glyph, "") for glyph in (first, *each.Component))
                    found[word] = each.LigGlyph
    return found


def _words(skin: Path) -> set[str]:
    """Return every word of the pages and the skin: better too many than too few."""
    files = [
        file
        for folder in (skin, ROOT / "mcp_app", ROOT / "mcpsite")
        for file in folder.rglob("*")
        if file.suffix in (".html", ".py", ".js", ".css") and "chart" not in file.parts
    ]
    return {word for file in files for word in WORD.findall(file.read_text())}


if __name__ == "__main__":
    main()
