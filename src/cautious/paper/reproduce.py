"""``reproduce``: run the parts, write their files, and keep the page up to date after each."""

from collections.abc import Callable, Sequence
from pathlib import Path

from cautious.errors import InputError
from cautious.paper import figure_1, figure_2, figure_3, figure_4, theorems
from cautious.paper.evidence import FULL, Part, Scale
from cautious.paper.page import page, part_section
from cautious.paper.written_files import write_claims, write_part
from cautious.report.canvas import require_matplotlib
from cautious.report.writing import make_folder, write_bytes
from cautious.runtime.interruption import leaving_at_once

PARTS: dict[str, Callable[[Scale], Part]] = {
    "1": figure_1.make,
    "2": figure_2.make,
    "3": figure_3.make,
    "4": figure_4.make,
    "theorems": theorems.make,
}


def reproduce(
    folder: Path,
    names: Sequence[str] = tuple(PARTS),
    scale: Scale = FULL,
    command: str = "cautious paper",
    tell: Callable[[str], None] = lambda name: None,
) -> list[Part]:
    """Run the named parts and write figures, numbers, films, claims and the page ``index.html`` into a folder, made
    when missing.

    ``tell`` is called with each name before its part begins. The page is written again after each part, so that an
    interrupted run leaves what it finished.
    """
    require_matplotlib()
    unknown = [name for name in names if name not in PARTS]
    if unknown or not names:
        found = f"there is no part {unknown[0]!r}" if unknown else "no part was named"
        raise InputError(f"{found}; the parts are {', '.join(PARTS)}")
    make_folder(folder)
    parts: list[Part] = []
    sections: list[str] = []
    with leaving_at_once():
        for name in dict.fromkeys(names):
            tell(name)
            part = PARTS[name](scale)
            image = write_part(part, folder)
            parts.append(part)
            sections.append(part_section(part, image))
            write_claims(parts, scale, folder / "claims.json")
            write_bytes(folder / "index.html", page(parts, sections, scale, command))
    return parts
