"""The lifecycle's diagram in ARCHITECTURE.md: `python -m dev.diagram` draws it, with `--check` it only looks."""

import argparse
import sys
from pathlib import Path

from db.lifecycle import diagram

ARCHITECTURE = Path(__file__).parents[1] / "ARCHITECTURE.md"
_BEGIN = "<!-- The lifecycle, drawn by `make diagram` -->"
_END = "<!-- End of the lifecycle -->"


def drawn(page: str) -> str:
    """Give the page with the diagram of db.lifecycle between its markers.

    Raises ValueError where a marker is not there exactly once.
    """
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end or _BEGIN in rest or _END in before + after:
        raise ValueError("ARCHITECTURE.md needs each marker of the diagram exactly once")
    return f"{before}{_BEGIN}\n```mermaid\n{diagram()}\n```\n{_END}{after}"


def main() -> int:
    """Draw, or with `--check` give 1 where the page is not what would be drawn."""
    parser = argparse.ArgumentParser(prog="python -m dev.diagram", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; end with 1 where the page is behind")
    check = parser.parse_args().check
    page = ARCHITECTURE.read_text(encoding="utf-8")
    if page == drawn(page):
        return 0
    if check:
        print("The diagram in ARCHITECTURE.md is not db/lifecycle.py's: run `make diagram`.")
        return 1
    ARCHITECTURE.write_text(drawn(page), encoding="utf-8")
    print("ARCHITECTURE.md has the diagram of db/lifecycle.py now.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
