"""Input by the mouse or by the keyboard alone; both count presses."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Error, Locator, Page, expect

# More tab stops than any page has before an element.
MOST_TABS = 250
MOST_LINES = 200
# Milliseconds.
SLOW = 30_000
IS_FOCUSED = "node => node === document.activeElement"
IS_CHOSEN = "node => node.classList.contains('mcp-chosen')"
# Presses in a row without a look at the page, because a look takes longer than a press.
PRESSES = 10
# Returns whether the element is reached. If not, the page ignores the key as soon as it is reached or
# replaced: no press goes beyond it.
STOP_AT = """(node, key) => {
  const reached = CONDITION;
  removeEventListener("keydown", window.stopOfTest, true);
  if (reached(node)) return true;
  window.stopOfTest = (event) => {
    if (event.key !== key || (node.isConnected && !reached(node))) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  addEventListener("keydown", window.stopOfTest, true);
  return false;
}"""


class Mouse:
    """Input by clicks; a field without the focus takes a click as well."""

    name = "mouse"

    def __init__(self, page: Page) -> None:
        self.page = page
        self.presses = 0

    def press(self, what: Locator) -> None:
        """Press a link, a button or a checkbox."""
        what.click()
        self.presses += 1

    def write(self, field: Locator, text: str) -> None:
        """Replace the text of a field."""
        expect(field).to_be_visible()
        if not field.evaluate(IS_FOCUSED):
            self.reach(field)
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(text)

    def reach(self, field: Locator) -> None:
        """Focus a field."""
        self.press(field)

    def choose(self, field: Locator, label: str) -> None:
        """Select a choice of a list."""
        field.select_option(label=label)
        self.presses += 1

    def upload(self, field: Locator, file: Path) -> None:
        """Upload a file of this machine."""
        field.set_input_files(file)
        self.presses += 1

    def pick_line(self, line: Locator) -> None:
        """Select a message of the console's list."""
        self.press(line)


class Keys(Mouse):
    """Input by Tab, and by Enter or Space on the focused element."""

    name = "keys"

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        # Long before the key press: a browser that learns of it later may first open its own dialog, which is
        # cancelled immediately without a screen.
        page.on("filechooser", lambda chooser: None)

    def press(self, what: Locator) -> None:
        """Press Enter, or Space for a checkbox."""
        self.reach(what)
        box = what.evaluate("node => node.type === 'checkbox'")
        key = "Space" if box else "Enter"
        self.page.keyboard.down(key)
        try:
            self.page.keyboard.up(key)
        except Error:
            # The press may close its window before the key is up.
            if not self.page.is_closed():
                raise
        self.presses += 1

    def reach(self, field: Locator) -> None:
        """Focus the field by Tab alone, from the current focus."""
        expect(field).to_be_visible()
        if self._press_until("Tab", field, IS_FOCUSED, MOST_TABS):
            return
        raise AssertionError(f"Tab does not reach {field}")

    def choose(self, field: Locator, label: str) -> None:
        """Select the choice by typing its beginning."""
        self.reach(field)
        self.page.keyboard.type(label)
        expect(field.locator("option:checked")).to_have_text(label)
        self.presses += 1

    def upload(self, field: Locator, file: Path) -> None:
        """Open the file dialog by a key; the dialog itself belongs to the system."""
        self.reach(field)
        with self.page.expect_file_chooser() as opened:
            self.page.keyboard.press("Enter")
        opened.value.set_files(file)
        self.presses += 1

    def pick_line(self, line: Locator) -> None:
        """Move by arrow keys from the newest line upwards."""
        expect(self.page.locator("#mcp-connection")).to_have_text("live", timeout=SLOW)
        expect(line).to_be_visible(timeout=SLOW)
        self.reach(self.page.locator("#mcp-scroll"))
        if self._press_until("ArrowUp", line, IS_CHOSEN, MOST_LINES):
            self.presses += 1
            return
        raise AssertionError(f"No arrow reaches {line}")

    def _press_until(self, key: str, what: Locator, condition: str, most: int) -> bool:
        """Press a key until the condition holds for the element. Return False after ``most`` presses."""
        for _ in range(most // PRESSES + 1):
            if what.evaluate(STOP_AT.replace("CONDITION", condition), key):
                return True
            for _ in range(PRESSES):
                self.page.keyboard.press(key)
        return False
