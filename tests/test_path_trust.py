"""Which other users could change a file."""

import grp
import os
import pwd
import stat
import struct
import sys
from pathlib import Path

import pytest

from wallaroo.path_trust import others_can_write, owned_by_another, untrusted_reason

NOBODYS = Path("/dev/null")  # Has no list of users that may write to it.


@pytest.fixture
def place(tmp_path):
    """Return a file two folders deep, that only its owner can write to."""
    file = tmp_path / "outer" / "inner" / "file"
    file.parent.mkdir(parents=True)
    file.write_text("")
    for path in (file, file.parent, file.parents[1]):
        path.chmod(0o755)
    return file


def test_a_users_own_path_up_to_the_root_is_trusted(place):
    assert untrusted_reason(place) is None
    assert untrusted_reason(place.parent) is None


@pytest.mark.parametrize("mode", [0o757, 0o777])
@pytest.mark.parametrize("above", [0, 1, 2])
def test_a_path_through_a_folder_that_others_can_write_to_is_not_trusted(place, above, mode):
    opened = [place, *place.parents][above]
    opened.chmod(mode)
    assert untrusted_reason(place) == f"others can write to {opened}"


def test_in_a_shared_folder_only_what_belongs_to_others_is_suspicious(place, given_away):
    shared = place.parents[1]
    shared.chmod(0o1777)
    assert untrusted_reason(place) is None
    assert untrusted_reason(shared) == f"others can write to {shared}"
    user = given_away(place.parent)
    assert "belongs to another user" in untrusted_reason(place, user)


def test_links_on_a_path_are_checked_as_well(place, tmp_path):
    (tmp_path / "safe").symlink_to("outer/../outer/inner")
    (tmp_path / "absolute").symlink_to(tmp_path / "safe")
    link = tmp_path / "absolute" / "file"
    assert untrusted_reason(link) is None
    place.parents[1].chmod(0o777)
    assert untrusted_reason(link) == f"others can write to {place.parents[1]}"


def test_a_link_to_the_folder_that_it_is_in_is_that_folder(place):
    shared = place.parents[1]
    (shared / "here").symlink_to(".")
    shared.chmod(0o1777)
    assert untrusted_reason(shared / "here") == f"others can write to {shared}"


def test_a_link_of_another_users_is_not_followed(place, tmp_path, given_away):
    (tmp_path / "link").symlink_to(place)
    user = given_away(tmp_path / "link")
    assert "belongs to another user" in untrusted_reason(tmp_path / "link", user)


def test_links_in_a_circle_have_an_end(tmp_path):
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    assert untrusted_reason(tmp_path / "one") == f"{tmp_path / 'one'} leads in a circle"


def test_a_path_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        untrusted_reason(tmp_path / "nothing")


def made_up(mode, user, group):
    return os.stat_result((mode, 0, 0, 0, user, group, 0, 0, 0, 0))


def test_the_system_is_trusted_and_other_users_are_not():
    me = os.getuid()
    assert [owned_by_another(made_up(0o700, user, 0), me) for user in (me, 0, me + 1)] == [False, False, True]


def test_a_group_that_is_one_users_alone_is_that_user():
    own = [
        user for user in pwd.getpwall() if (user.pw_name, user.pw_gid, []) in map(name_number_members, grp.getgrall())
    ]
    assert own, "every system has at least that of root, or of a service"
    for user in own:
        assert not others_can_write(NOBODYS, made_up(0o775, user.pw_uid, user.pw_gid))
        assert others_can_write(NOBODYS, made_up(0o777, user.pw_uid, user.pw_gid))
    # Users are not listed in a group that is their primary one.
    names = {group.gr_gid: group.gr_name for group in grp.getgrall()}
    for user in pwd.getpwall():
        if names.get(user.pw_gid) != user.pw_name:
            assert others_can_write(NOBODYS, made_up(0o770, user.pw_uid, user.pw_gid))
    assert others_can_write(NOBODYS, made_up(0o770, own[0].pw_uid, 54321))
    assert others_can_write(NOBODYS, made_up(0o770, 54321, own[0].pw_gid))


def name_number_members(group):
    return group.gr_name, group.gr_gid, group.gr_mem


def test_the_folders_of_the_system_are_trusted():
    programs = Path("/usr/bin")
    # A sandbox may not show whose they are.
    assert (untrusted_reason(programs) is None) == (programs.stat().st_uid in {0, os.getuid()})
    assert not stat.S_IMODE(Path("/usr").stat().st_mode) & 0o002


@pytest.fixture
def own_group(tmp_path, monkeypatch):
    """Simulate a private group, which not every user who runs the tests has; return its number."""
    number = tmp_path.stat().st_gid
    monkeypatch.setattr(pwd, "getpwuid", lambda user: pwd.struct_passwd(("me", "x", user, number, "", "", "")))
    monkeypatch.setattr(grp, "getgrgid", lambda group: grp.struct_group(("me", "x", group, [])))
    return number


@pytest.mark.parametrize("writes", [True, False])
@pytest.mark.parametrize("kind", ["file", "folder"] if sys.platform == "linux" else [])
def test_a_list_of_users_beside_the_modes_counts(place, own_group, kind, writes):
    """With a list, the group's mode is a mask for everyone on the list, not the permission of the group."""
    path = place if kind == "file" else place.parent
    path.chmod(0o770)
    assert untrusted_reason(place) is None
    owner, user, group, bound, others, none = 1, 2, 4, 16, 32, 0xFFFFFFFF
    most = 7 if writes else 5
    entries = [(owner, 7, none), (user, 7, 12345), (group, 5, none), (bound, most, none), (others, 0, none)]
    users = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(path, "system.posix_acl_access", users)
    assert untrusted_reason(place) == (f"others can write to {path}" if writes else None)
    path.chmod(0o750)
    assert untrusted_reason(place) is None


@pytest.fixture
def sandbox_user(place, monkeypatch, given_away):
    """Give the inner folder to a user who stands for all others, as in a sandbox; return as whom one has to ask."""
    user = given_away(place.parent)
    others = place.parent.stat().st_uid
    monkeypatch.setattr("wallaroo.path_trust._overflow_user", lambda: others)
    return user


def test_where_a_sandbox_shows_all_others_as_one_the_system_is_trusted_on_the_way_only(place, sandbox_user, given_away):
    if sandbox_user == os.getuid():  # Otherwise all on the way is given away, also what is in a shared folder.
        assert untrusted_reason(place, sandbox_user) is None
    assert "belongs to another user" in untrusted_reason(place.parent, sandbox_user)
    given_away(place)
    assert "belongs to another user" in untrusted_reason(place, sandbox_user)
    assert owned_by_another(place.stat(), sandbox_user)


def test_in_a_sandbox_files_in_a_shared_folder_are_not_trusted(place, sandbox_user):
    place.parents[1].chmod(0o1777)
    assert "belongs to another user" in untrusted_reason(place, sandbox_user)


def test_the_overflow_group_is_not_trusted_in_a_sandbox(monkeypatch, own_group):
    monkeypatch.setattr("wallaroo.path_trust._overflow_user", lambda: 65534)
    assert not others_can_write(NOBODYS, made_up(0o770, 1000, own_group))
    assert others_can_write(NOBODYS, made_up(0o770, 65534, own_group))
