"""The examples as a whole, and the machinery that follows their READMEs."""

import re

import pytest

from .readme import EXAMPLES, blocks, commands, environment, expect_shown, with_free_ports

README = """\
Terminal 1:

```console
$ wallaroo receive 127.0.0.1:7002
listening on 127.0.0.1:7002
```

    $ not this one

```console
$ for f in *.log; do echo $f; done
$ machida --in 127.0.0.1:7010,127.0.0.1:7011 --out 127.0.0.1:7002
```

```text
one
...
```
"""


def test_the_index_lists_every_example():
    listed = re.findall(r"^\| \[`(\w+)`\]\((\S+)\)", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(name for name, _ in listed) == sorted({path.parent.name for path in EXAMPLES.glob("*/*.py")})
    for name, target in listed:
        assert target.startswith(name + "/")
        assert (EXAMPLES / target).is_file()


def test_commands_are_found_as_they_stand():
    assert commands(README) == [
        "wallaroo receive 127.0.0.1:7002",
        "for f in *.log; do echo $f; done",
        "machida --in 127.0.0.1:7010,127.0.0.1:7011 --out 127.0.0.1:7002",
    ]
    assert blocks(README, "text") == ["one\n...\n"]


def test_only_ports_are_replaced_and_everywhere_alike():
    receive, loop, machida = with_free_ports(commands(README))
    found = re.fullmatch(r"machida --in 127.0.0.1:(\d+),127.0.0.1:(\d+) --out 127.0.0.1:(\d+)", machida)
    assert receive == f"wallaroo receive 127.0.0.1:{found[3]}"
    assert loop == "for f in *.log; do echo $f; done"
    assert len({*found.groups(), "7010", "7011", "7002"}) == 6


def test_the_output_in_a_readme_must_occur_as_often():
    expect_shown(["b", "a"], ["a", "b", "c"])
    with pytest.raises(AssertionError, match="the README shows 'd'"):
        expect_shown(["a", "d"], ["a", "b", "c"])
    with pytest.raises(AssertionError, match="the README shows 'a'"):
        expect_shown(["a", "a"], ["a", "b"])


def test_a_walk_takes_the_commands_one_by_one(walkthrough):
    walk = walkthrough("reverse")
    assert walk.shown[0] == "dlrow olleh yhw"
    with pytest.raises(AssertionError, match="the next command is 'wallaroo receive"):
        walk.run("machida")
    receiver = walk.start("wallaroo receive")
    with pytest.raises(AssertionError, match="'machida --application-module reverse"):
        walk.finish()
    receiver.ctrl_c()
    with pytest.raises(AssertionError, match=r"wallaroo receive .* ended with 0"):
        walk.wait_for_lines(receiver, 1)


def test_commands_are_run_with_this_wallaroo(tmp_path):
    variables = environment(tmp_path)
    assert variables["TMPDIR"] == str(tmp_path)
    assert variables["PYTHONPATH"].startswith(str(EXAMPLES.parent / "src"))
