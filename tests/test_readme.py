"""README and CONTRIBUTING name files, commands and targets that exist."""

import re

import pytest

from vgg_kernels.__main__ import build
from vgg_kernels.report.study import root

ROOT = root()
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "data/README.md", "docs/scaling.md"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_somewhere(name):
    folder = (ROOT / name).parent
    targets = re.findall(r"\]\(([^)\s#]+)", (ROOT / name).read_text())
    missing = [t for t in targets if not re.match(r"[a-z]+:", t) and not (folder / t).exists()]
    assert missing == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_command_that_is_named_exists(name):
    text = (ROOT / name).read_text()
    commands = {command.name for command in build().registered_commands} | {
        group.name for group in build().registered_groups
    }
    assert set(re.findall(r"python -m vgg_kernels ([a-z]+)", text)) <= commands
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", text, re.MULTILINE)) <= targets


def test_the_readme_names_every_command_of_the_command_line():
    text = (ROOT / "README.md").read_text()
    listed = re.search(r"is the command line: (.*?)\.", text, re.DOTALL)[1]
    commands = {command.name for command in build().registered_commands} | {
        group.name for group in build().registered_groups
    }
    assert set(re.findall(r"`([a-z-]+)`", listed)) == commands - {"study"}


def test_the_question_the_answer_and_the_commands_come_first():
    first_screen = (ROOT / "README.md").read_text().splitlines()[:30]
    text = "\n".join(first_screen)
    assert first_screen[0].endswith("?")
    order = [
        text.index(mark) for mark in ("answer:begin", "make study", "make test", ".svg)", "table:begin", "table:end")
    ]
    assert order == sorted(order)


def test_every_picture_of_the_readme_says_what_it_shows():
    pictures = re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert pictures
    assert all(len(alternative) > 40 for alternative, _ in pictures)
