"""How a person works a page: by the mouse or by keys alone; both count what they press."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator, Page, expect

# More places than any page has before what is looked for.
MOST_TABS = 250
MOST_LINES = 200
# Milliseconds.
SLOW = 30_000
IS_FOCUSED = "node => node === document.activeElement"


class Mouse:
    """Presses by clicks; a field that has no focus takes one, too."""

    name = "mouse"

    def __init__(self, page: Page) -> None:
        self.page = page
        self.presses = 0

    def press(self, what: Locator) -> None:
        """A link, a button, a box to tick."""
        what.click()
        self.presses += 1

    def write(self, field: Locator, text: str) -> None:
        """Text in the place of what a field has."""
        expect(field).to_be_visible()
        if not field.evaluate(IS_FOCUSED):
            self.reach(field)
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(text)

    def reach(self, field: Locator) -> None:
        """Go to a field."""
        self.press(field)

    def choose(self, field: Locator, label: str) -> None:
        """One of a list of choices."""
        field.select_option(label=label)
        self.presses += 1

    def upload(self, field: Locator, file: Path) -> None:
        """A file of this machine."""
        field.set_input_files(file)
        self.presses += 1

    def pick_line(self, line: Locator) -> None:
        """A message of the console's list."""
        self.press(line)


class Keys(Mouse):
    """Presses by Enter and Space what Tab has reached."""

    name = "keys"

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        # Long before the key: a browser that is told only then may open its own window first, and without a
        # screen that is cancelled at once.
        page.on("filechooser", lambda chooser: None)

    def press(self, what: Locator) -> None:
        """Enter, or Space for a box to tick."""
        self.reach(what)
        box = what.evaluate("node => node.type === 'checkbox'")
        self.page.keyboard.press("Space" if box else "Enter")
        self.presses += 1

    def reach(self, field: Locator) -> None:
        """By Tab alone, from wherever the focus is."""
        expect(field).to_be_visible()
        for _ in range(MOST_TABS):
            if field.evaluate(IS_FOCUSED):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not reach {field}")

    def choose(self, field: Locator, label: str) -> None:
        """By typing how it begins."""
        self.reach(field)
        self.page.keyboard.type(label)
        expect(field.locator("option:checked")).to_have_text(label)
        self.presses += 1

    def upload(self, field: Locator, file: Path) -> None:
        """The window that asks for a file belongs to the system; that it opens by a key is seen here."""
        self.reach(field)
        with self.page.expect_file_chooser() as opened:
            self.page.keyboard.press("Enter")
        opened.value.set_files(file)
        self.presses += 1

    def pick_line(self, line: Locator) -> None:
        """The arrows go from the newest line upwards, once the lines are there."""
        expect(self.page.locator("#mcp-connection")).to_have_text("live", timeout=SLOW)
        expect(line).to_be_visible(timeout=SLOW)
        self.reach(self.page.locator("#mcp-scroll"))
        for _ in range(MOST_LINES):
            self.page.keyboard.press("ArrowUp")
            if "mcp-chosen" in (line.get_attribute("class") or ""):
                self.presses += 1
                return
        raise AssertionError(f"No arrow reaches {line}")
