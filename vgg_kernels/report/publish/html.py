"""The workload page as HTML: a fragment for a notebook, or a document of its own. One template, no scripts."""

import re
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from ..page import STATUS_WORDS
from ..page_model import Page

TEMPLATE = "page.html"


def _significant(value: float, digits: int = 3) -> str:
    """2.43, 12.6, 1352: ``digits`` significant figures, trailing zeros kept where they are significant."""
    text = f"{value:#.{digits}g}".rstrip(".")
    return text if "e" not in text else f"{value:.0f}"


def _code(text: str) -> Markup:
    """The words between back-ticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _breakable(text: str) -> Markup:
    """A path that may break at its joints."""
    return Markup(re.sub(r"(/|::|_)", r"\1<wbr>", str(escape(text))))


@cache
def _template():
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"sig": _significant, "code": _code, "breakable": _breakable, "zip": zip}
    return environment.from_string(files(__package__).joinpath(TEMPLATE).read_text(encoding="utf-8"))


def fragment(page: Page) -> str:
    """The page as one element with its style, for a notebook's output."""
    return _template().render(page=page, words=STATUS_WORDS)


def document(page: Page) -> str:
    """The page as a file that needs nothing else."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{escape(page.workload.name)}: records</title>
<style>body {{ font-family: system-ui, sans-serif; margin: 1.5rem; }}</style>
</head>
<body>
{fragment(page)}
</body>
</html>
"""
