import re
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from matplotlib.image import imsave
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from vgg_kernels.report.publish.notebooks import execute
from vgg_kernels.report.publish.site import build

PICTURE = "from IPython.display import Image\nImage('../figures/01_dot.png', alt='one dot')"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A small study, in a folder with a space in its name, and the pages made of it."""
    study = tmp_path_factory.mktemp("a study")
    for folder in ("notebooks", "figures", "data", "vgg_kernels"):
        (study / folder).mkdir()
    imsave(study / "figures" / "01_dot.png", [[0.0]])
    (study / "data" / "README.md").write_text("# Columns\n[back](../README.md)")
    (study / "data" / "rows.csv").write_text("a\n1\n")
    (study / "README.md").write_text(
        "# How fast?\n![dot](figures/01_dot.png)\n\n[one](notebooks/01_first.ipynb#what), [rows](data/rows.csv), "
        "[code](vgg_kernels), [outside](../../etc/hosts), [web](https://example.org), [columns](data/README.md)\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    first = [new_markdown_cell("# First\n[next](02_second.ipynb), [up](../README.md)"), new_code_cell(PICTURE)]
    why = "because it is so, and not otherwise"
    frame = (
        f"import pandas as pd\nrows = pd.DataFrame({{'row': ['a'], 'x': [1], 'why': ['{why}']}})\n"
        "rows.set_index('row').rename_axis(columns='quantity')"
    )
    nbformat.write(new_notebook(cells=first), study / "notebooks" / "01_first.ipynb")
    nbformat.write(new_notebook(cells=[new_code_cell(frame)]), study / "notebooks" / "02_second.ipynb")
    for name in ("01_first", "02_second"):
        execute(study / "notebooks" / f"{name}.ipynb")
    pages = build(study, study / "site", records="<h2>All records</h2><p>none</p>")
    return {
        page.relative_to(study / "site").as_posix(): BeautifulSoup(page.read_text(), "html.parser") for page in pages
    }, study


def addresses(page):
    return [str(tag.get("href") or tag.get("src")) for tag in page.find_all(["a", "img", "link", "script"])]


def test_each_notebook_is_a_page_and_the_readme_is_the_index(site):
    pages, _ = site
    assert list(pages) == [
        "index.html",
        "notebooks/01_first.html",
        "notebooks/02_second.html",
        "data/README.html",
        "records.html",
    ]
    assert pages["records.html"].title.string == "All records"
    assert pages["index.html"].title.string == "How fast?"
    assert pages["notebooks/01_first.html"].find("img")["alt"] == "one dot"


def test_every_link_of_every_page_leads_somewhere(site):
    pages, study = site
    for name, page in pages.items():
        for address in addresses(page):
            if not re.match(r"https?:|data:", address):
                assert ((study / "site" / name).parent / address.split("#")[0]).is_file(), (name, address)


def test_links_follow_their_targets(site):
    pages, study = site
    index = addresses(pages["index.html"])
    assert "notebooks/01_first.html#what" in index
    assert "data/README.html" in index
    assert (study / "site" / "data" / "rows.csv").read_text() == "a\n1\n"
    assert "../index.html" in addresses(pages["notebooks/01_first.html"])


def test_a_link_to_what_the_site_has_not_keeps_its_text(site):
    pages, _ = site
    assert "code" in pages["index.html"].get_text()
    assert not any("vgg_kernels" in address or "hosts" in address for address in addresses(pages["index.html"]))


def test_nothing_comes_from_the_network_and_nothing_runs(site):
    for page in site[0].values():
        assert not page.find_all("script")
        loaded = [str(tag.get("href") or tag.get("src")) for tag in page.find_all(["link", "img", "iframe"])]
        assert not [address for address in loaded if re.match(r"https?:|//", address)]
        assert "@import" not in page.decode()


def test_tables_scroll_in_their_own_box_and_the_chapter_is_marked(site):
    for name, page in site[0].items():
        assert all("wide" in table.parent.get("class", []) for table in page.find_all("table"))
        assert page.find("meta", attrs={"name": "viewport"})
        assert len(page.find_all(attrs={"aria-current": "page"})) == (name != "data/README.html")


def test_words_read_from_the_left_and_an_index_has_its_name_above_it(site):
    table = site[0]["notebooks/02_second.html"].find("table")
    assert [cell.get_text() for cell in table.select("thead th")] == ["row / quantity", "x", "why"]
    assert "text" in table.find("th")["class"]
    number, words = table.find_all("td")
    assert "text" not in number.get("class", [])
    assert {"text", "long"} <= set(words["class"])


def test_a_folder_without_notebooks_is_refused(tmp_path):
    (tmp_path / "README.md").write_text("# x")
    with pytest.raises(ValueError, match="no notebook"):
        build(tmp_path, Path(tmp_path / "site"))
