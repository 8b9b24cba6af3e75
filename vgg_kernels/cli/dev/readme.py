"""``readme``: rewrite the README's table from the recorded data."""


def command() -> None:
    """Rewrite the README's table from the recorded data, the floors and the time model."""
    import os

    os.environ["VGG_STUDY"] = "recorded"  # what a machine measured for itself does not belong there
    from ...report import page
    from ...report.publish.readme import update
    from ...report.study import root

    update(root() / "README.md", page.page())
    print("README.md is what the recorded data say")
