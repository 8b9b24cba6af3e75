"""The command line as a whole: its errors, and that it starts without the heavy packages."""

import subprocess
import sys

import pytest

from vgg_kernels.__main__ import build, main


def test_a_users_error_is_one_line_and_exit_status_2(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["vgg_kernels", "study", "--only", "[bold]"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("error: no notebook '[bold]' in ")
    assert told.count("\n") == 1


def test_starting_imports_neither_torch_nor_triton_nor_matplotlib():
    code = (
        "import sys, vgg_kernels.__main__ as m; m.build(); print(*{'torch', 'triton', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_every_command_says_what_it_does():
    for command in build().registered_commands:
        assert command.callback.__doc__, command.name
    for group in build().registered_groups:
        assert group.typer_instance.info.help, group.name
