"""``reproduce``: run the parts, write their files, and keep the page up to date after each.

A part leaves its figure as PNG and PDF, its numbers as csv and its films as mp4; all claims are in one JSON file.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cautious.errors import InputError
from cautious.paper import figure_1, figure_2, figure_3, figure_4, theorems
from cautious.paper.evidence import FULL, Interval, Part, Scale
from cautious.paper.page import page, part_section
from cautious.report.canvas import LIGHT, png, require_matplotlib
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
            claims = {"scale": asdict(scale), "claims": claims_for_machines(parts)}
            write_bytes(folder / "claims.json", (json.dumps(claims, indent=2, ensure_ascii=False) + "\n").encode())
            write_bytes(folder / "index.html", page(parts, sections, scale, command))
    return parts


def write_part(part: Part, folder: Path) -> bytes:
    """Write the files of one part; returns the bytes of the PNG."""
    figure = part.draw(LIGHT)
    image = png(figure, dpi=200)
    # the PDF has the places of the PNG: looking for them again takes as long as drawing
    figure.set_layout_engine("none")
    pdf, table = io.BytesIO(), io.StringIO()
    # without the date, so that the same numbers give the same bytes
    figure.savefig(pdf, format="pdf", facecolor=figure.get_facecolor(), metadata={"CreationDate": None})
    writer = csv.DictWriter(table, fieldnames=list(part.rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(part.rows)
    contents = {
        f"{part.key}.png": image,
        f"{part.key}.pdf": pdf.getvalue(),
        f"{part.key}.csv": table.getvalue().encode(),
    }
    for name, content in (contents | {f"{film.name}.mp4": film.content for film in part.videos}).items():
        write_bytes(folder / name, content)
    return image


def claims_for_machines(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Plain dictionaries, one per claim."""
    return [
        {
            "part": part.key,
            "place": claim.place,
            "said": claim.said,
            "found": claim.found,
            "of_paper": claim.of_paper,
            "holds": claim.holds,
            "caveat": claim.caveat,
            "numbers": {
                name: asdict(value) if isinstance(value, Interval) else value for name, value in claim.numbers.items()
            },
        }
        for part in parts
        for claim in part.claims
    ]
