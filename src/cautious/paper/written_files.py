"""What a part leaves in the folder: its figure as PNG and PDF, its numbers as csv, its films; all claims as JSON."""

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cautious.paper.evidence import Interval, Part, Scale
from cautious.report.canvas import LIGHT, png
from cautious.report.writing import write_bytes


def write_part(part: Part, folder: Path) -> bytes:
    """Write the files of one part; the PNG, for those who have use for it."""
    figure = part.draw(LIGHT)
    image = png(figure, dpi=200)
    # the PDF has the places of the PNG: looking for them again takes as long as drawing
    figure.set_layout_engine("none")
    contents = {
        f"{part.key}.png": image,
        f"{part.key}.pdf": _pdf(figure),
        f"{part.key}.csv": _csv(part),
        **{f"{film.name}.mp4": film.content for film in part.videos},
    }
    for name, content in contents.items():
        write_bytes(folder / name, content)
    return image


def write_claims(parts: Iterable[Part], scale: Scale, path: Path) -> None:
    """Every claim with its evidence, for machines."""
    content = {"scale": asdict(scale), "claims": claims_for_machines(parts)}
    write_bytes(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


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


def _pdf(figure: Any) -> bytes:
    stream = io.BytesIO()
    # without the date, so that the same numbers give the same bytes
    figure.savefig(stream, format="pdf", facecolor=figure.get_facecolor(), metadata={"CreationDate": None})
    return stream.getvalue()


def _csv(part: Part) -> bytes:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(part.rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(part.rows)
    return stream.getvalue().encode()
