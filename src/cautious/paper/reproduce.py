"""``reproduce``: run the parts, write their files, and keep the page up to date after each.

A part leaves its figure as PNG and PDF, its numbers as csv and its films as mp4; all claims are in one JSON file. The
page has each claim of the paper, the evidence, and whether it holds.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from cautious.errors import InputError
from cautious.paper import figure_1, figure_2, figure_3, figure_4, theorems
from cautious.paper.evidence import FULL, PaperClaim, Part, Scale, claims_held
from cautious.paper.videos import MISSING, can_film
from cautious.regular_files import make_folder
from cautious.report import pieces
from cautious.report.canvas import DARK, LIGHT, png, require_matplotlib
from cautious.report.writing import write_bytes
from cautious.runtime.interruption import leaving_at_once
from cautious.sweeps.statistics import Interval

PAPER = "Cautious Reinforcement Learning via Distributional Risk in the Dual Domain"
VERDICTS = {True: ("good", "holds"), False: ("warn", "does not hold")}
PARTS: dict[str, Callable[[Scale, Executor | None], Part]] = {
    "1": lambda scale, executor: figure_1.make(scale),
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
    executor: Executor | None = None,
) -> list[Part]:
    """Run the named parts and write figures, numbers, films, claims and the page ``index.html`` into a folder, made
    when missing.

    ``tell`` is called with each name before its part begins. The page is written again after each part, so that an
    interrupted run leaves what it finished.

    The numbers are the same for any ``executor``.
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
            part = PARTS[name](scale, executor)
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


def page(parts: Sequence[Part], sections: Sequence[str], scale: Scale, command: str) -> bytes:
    """The whole page; ``sections`` are the parts as ``part_section`` wrote them."""
    body = [
        _header(parts, scale),
        pieces.section("Every claim, and whether it holds", _overview(parts)),
        *sections,
        pieces.section("How to reproduce it", pieces.code(command), pieces.paragraphs(_notes(parts, scale), "soft")),
    ]
    return pieces.document("The paper, reproduced", "\n".join(body))


def part_section(part: Part, image: bytes) -> str:
    """One figure with its claims, its films and its files; ``image`` is the figure for light screens, as PNG."""
    files = [f"{part.key}.png", f"{part.key}.pdf", f"{part.key}.csv"]
    links = " · ".join(pieces.link(name, name) for name in files)
    return (
        f'<section id="{part.key}">\n<h2>{escape(part.title)}</h2>\n<div class="wide">'
        f"{pieces.drawn(image, png(part.draw(DARK)), part.alt, part.caption)}</div>\n"
        + "\n".join(
            f'<figure class="wide"><video controls muted playsinline src="{pieces.data(film.content, "video/mp4")}">'
            f"</video><figcaption>{escape(film.caption)}</figcaption></figure>"
            for film in part.videos
        )
        + f'\n<p class="soft">Files: {links}</p>\n'
        + "\n".join(_claim(claim) for claim in part.claims)
        + "\n</section>"
    )


def _header(parts: Sequence[Part], scale: Scale) -> str:
    held, theirs = claims_held(parts)
    lead = (
        f"{held} of {theirs} claims of the paper hold in our runs; where one does not, or depends on something, it "
        "says so."
    )
    beyond = sum(len(part.claims) for part in parts) - theirs
    if beyond:
        lead += f" {beyond} checks beyond the paper stand beside them."
    cut = "" if not scale.quick else f" This is the quick run; the full one has {FULL.seeds} seeds and more samples."
    about = (
        f"The paper is “{PAPER}”. Its reward maps and constants are not in its text, so the worlds here are ours; what "
        f"is reproduced is each claim, with {scale.seeds} seeds and 95 % intervals. On this page: "
        f"{', '.join(part.key for part in parts)}.{cut}"
    )
    return (
        f"<header>\n<h1>The paper, reproduced</h1>\n{pieces.paragraphs([lead], 'lead')}\n"
        f"{pieces.paragraphs([about])}\n</header>"
    )


def _overview(parts: Sequence[Part]) -> str:
    ours = '<br><span class="soft">beyond the paper</span>'
    rows = "\n".join(
        f'<tr><td class="words"><a href="#{part.key}">{escape(claim.place)}</a>{"" if claim.of_paper else ours}</td>'
        f'<td class="words">{escape(claim.said)}</td><td class="words">{_verdict(claim)}</td></tr>'
        for part in parts
        for claim in part.claims
    )
    head = "".join(f'<th class="words">{name}</th>' for name in ("where", "what is claimed", "here"))
    return f'<table class="stacked"><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>'


def _verdict(claim: PaperClaim) -> str:
    tone, word = VERDICTS[claim.holds]
    return f'<span class="badge {tone}">{word}</span>'


def _claim(claim: PaperClaim) -> str:
    rows = [("Claim", claim.said), ("Found", claim.found)]
    rows += [("Depends on", claim.caveat)] if claim.caveat else []
    return f"<h3>{escape(claim.place)} {_verdict(claim)}</h3>\n{pieces.definitions(rows)}"


def _notes(parts: Sequence[Part], scale: Scale) -> list[str]:
    """How sure it is, and why there are no films where they could not be made."""
    sure = (
        f"Intervals are Student's t over {scale.seeds} seeds; what is compared is compared per seed first. The same "
        "command gives the same numbers. “Holds” is decided by the intervals, by code; our reading of a claim is in "
        "its sentence, and some readings were fixed after first runs had been seen."
    )
    filmed = can_film() or any(part.videos for part in parts)
    return [sure] if filmed else [sure, f"There are no films here: {MISSING}."]
