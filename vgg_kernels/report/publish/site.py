"""The study as static pages: README, notebooks and the records, with one style sheet and nothing from the network.

The site mirrors the repository's folders, so a relative link needs only its ending changed: a notebook or a
Markdown file is a page, any other file that a page names is copied, and a link to anything else keeps its text.
"""

import re
import shutil
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import zip_longest
from os.path import relpath
from pathlib import Path
from posixpath import normpath
from urllib.parse import unquote

import nbformat
from bs4 import BeautifulSoup, Tag
from nbconvert import HTMLExporter
from pygments.formatters import HtmlFormatter

from .notebooks import notebooks

STYLE_SHEET = "site.css"
RECORDS = Path("records.html")
DOCUMENTS = ("CONTRIBUTING.md", "data/README.md", "docs/scaling.md")  # pages that chapters link to


def build(repository: Path, out: Path, records: str = "") -> list[Path]:
    """Write the site into ``out`` and return its pages, the index first.

    Args:
        repository: the study's folder, with README.md, notebooks/ and figures/.
        out: the site's folder; files of an earlier build are overwritten.
        records: the workload page as an HTML fragment; a page of its own where there is one.

    Raises:
        ValueError: there are no notebooks.
        FileNotFoundError: there is no README.md.
    """
    out.mkdir(parents=True, exist_ok=True)
    sheet = files(__package__).joinpath(STYLE_SHEET).read_text(encoding="utf-8")
    (out / STYLE_SHEET).write_text(
        sheet + HtmlFormatter(style="default").get_style_defs(".highlight"), encoding="utf-8"
    )
    sources = [Path("README.md"), *(path.relative_to(repository) for path in notebooks(repository / "notebooks"))]
    extra = [path for name in DOCUMENTS if (repository / (path := Path(name))).is_file()]
    pages = {source: _address(source) for source in sources + extra}
    bodies = {source: _render(repository / source) for source in pages}
    if records:
        sources.append(RECORDS)
        pages[RECORDS], bodies[RECORDS] = RECORDS, records
    for source, page in pages.items():
        (out / page).parent.mkdir(parents=True, exist_ok=True)
        text = _page(bodies[source], repository, out, source, pages, sources)
        (out / page).write_text(text, encoding="utf-8")
    return [out / page for page in pages.values()]


def _address(source: Path) -> Path:
    return Path("index.html") if source == Path("README.md") else source.with_suffix(".html")


def _page(
    content: str, repository: Path, out: Path, source: Path, pages: dict[Path, Path], chapters: Sequence[Path]
) -> str:
    body = BeautifulSoup(content, "html.parser")
    for tag in body.find_all(["a", "img"]):
        _relink(tag, repository, out, source, pages)
    for table in body.find_all("table"):
        _one_header(table)
        _mark_text(table)
        if not table.find_parent(class_="scroll"):
            table.wrap(body.new_tag("div", attrs={"class": "wide"}))
    heading = body.find(["h1", "h2"])
    title = heading.get_text().strip() if heading else source.stem
    up = relpath(".", pages[source].parent)
    links = "\n".join(
        f'<a href="{relpath(pages[chapter], pages[source].parent)}"{" aria-current=page" if chapter == source else ""}>'
        f"{escape(_label(chapter))}</a>"
        for chapter in chapters
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{up}/{STYLE_SHEET}">
</head>
<body>
<nav aria-label="Chapters">
{links}
</nav>
<main>
{body}
</main>
</body>
</html>
"""


def _label(chapter: Path) -> str:
    if chapter in (Path("README.md"), RECORDS):
        return "All records" if chapter == RECORDS else "Overview"
    number, _, words = chapter.stem.partition("_")
    return f"{int(number)} {words.replace('_', ' ').capitalize()}"


def _render(path: Path) -> str:
    """The body of a notebook or Markdown file as HTML, without prompts."""
    if path.suffix == ".ipynb":
        notebook = nbformat.read(path, as_version=4)
    else:
        cell = nbformat.v4.new_markdown_cell(path.read_text(encoding="utf-8"))
        notebook = nbformat.v4.new_notebook(cells=[cell])
    exporter = HTMLExporter(
        template_name="basic", exclude_input_prompt=True, exclude_output_prompt=True, exclude_anchor_links=True
    )
    return exporter.from_notebook_node(notebook)[0]


NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?%?|nan|inf|<NA>|", re.IGNORECASE)
LONG = 24  # characters; a cell that holds more of them keeps some width on a phone


def _one_header(table: Tag) -> None:
    """Pull the row in which pandas names a table's index into the row that names its columns."""
    rows = table.select("thead > tr")
    if len(rows) != 2:
        return
    names, index = (row.find_all("th") for row in rows)
    if len(names) == len(index) and not index[-1].get_text().strip():  # else a second level of columns
        for name, other in zip(names, index, strict=True):
            texts = [cell.get_text().strip() for cell in (other, name)]
            name.string = " / ".join(filter(None, texts))  # over the index: its own name, and that of the columns
            if texts[0]:
                name["class"] = "text"
        rows[1].decompose()


def _mark_text(table: Tag) -> None:
    """Mark the columns that hold words: they read from the left, as numbers do from the right.

    A table whose cells span others is left as it is: its cells are in no column that could be counted.
    """
    rows = [row.find_all(["th", "td"]) for row in table.find_all("tr")]
    if any(cell.has_attr("rowspan") or cell.has_attr("colspan") for cells in rows for cell in cells):
        return
    for column in zip_longest(*rows):
        cells = [cell for cell in column if cell is not None]
        texts = [cell.get_text().strip() for cell in cells if cell.name == "td"]
        if not all(map(NUMBER.fullmatch, texts)):
            kinds = ["text", "long"] if max(map(len, texts)) > LONG else ["text"]
            for cell in cells:
                cell["class"] = " ".join([*cell.get_attribute_list("class"), *kinds])


def _relink(tag: Tag, repository: Path, out: Path, source: Path, pages: dict[Path, Path]) -> None:
    """Point a relative link at the page made of its target, or at a copy of the file; else unlink it."""
    attribute = "href" if tag.name == "a" else "src"
    target = str(tag.get(attribute, ""))
    if not target or re.match(r"[a-z][a-z0-9+.-]*:|#", target):
        return
    location, _, fragment = target.partition("#")
    wanted = Path(normpath(str(source.parent / unquote(location))))
    if wanted in pages:
        place = relpath(pages[wanted], pages[source].parent)
        tag[attribute] = place + (f"#{fragment}" if fragment else "")
    elif ".." not in wanted.parts and (repository / wanted).is_file():
        (out / wanted).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(repository / wanted, out / wanted)
    else:
        tag.unwrap()
