"""Draw the badges of the README from what the package declares, so that they are true.

Run from the root of a checkout: python docs/images/badges.py
"""

import tomllib
from html import escape
from pathlib import Path

import cautious as ca

HERE = Path(__file__).parent
CHARACTER, PAD, HEIGHT, SPACE = 6.6, 8, 20, 6


def badges() -> str:
    """One picture with a badge for version, Python, licence and types."""
    declared = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())
    project = declared["project"]
    rows = [
        ("version", ca.__version__),
        ("Python", project["requires-python"]),
        ("licence", project["license"]),
        ("types", "mypy strict" if declared["tool"]["mypy"]["strict"] else "mypy"),
    ]
    parts, x = [], 0.0
    for name, value in rows:
        left, right = (2 * PAD + CHARACTER * len(word) for word in (name, value))
        parts.append(
            f'<rect x="{x:g}" width="{left:g}" height="{HEIGHT}" fill="#4a4a4a"/>'
            f'<rect x="{x + left:g}" width="{right:g}" height="{HEIGHT}" fill="#1f6f8b"/>'
            f'<text x="{x + left / 2:g}" y="14">{escape(name)}</text>'
            f'<text x="{x + left + right / 2:g}" y="14">{escape(value)}</text>'
        )
        x += left + right + SPACE
    said = escape(", ".join(f"{name} {value}" for name, value in rows))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{x - SPACE:g}" height="{HEIGHT}" role="img" '
        f'aria-label="{said}"><title>{said}</title>\n'
        '<g font-family="Verdana, DejaVu Sans, sans-serif" font-size="11" fill="#fff" text-anchor="middle">\n'
        + "\n".join(parts)
        + "\n</g></svg>\n"
    )


if __name__ == "__main__":
    (HERE / "badges.svg").write_text(badges())
