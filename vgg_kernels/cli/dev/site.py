"""``site``: render the study to static pages."""

from pathlib import Path
from typing import Annotated

import typer


def command(out: Annotated[Path | None, typer.Option(help="The site's folder; site/ by default.")] = None) -> None:
    """Render README, notebooks and records to static HTML that needs no network."""
    from ...report import page
    from ...report.publish import html
    from ...report.publish.site import build
    from ...report.study import root

    pages = build(root(), out or root() / "site", html.fragment(page.page()))
    print(f"{len(pages)} pages; open {pages[0]}")
