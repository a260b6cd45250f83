"""What the serving user may read is told by mode, owner and groups, of the files and of every folder above them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

import weights_builder as build
from ds_doctor import engine
from ds_doctor.host import Asked, Host
from ds_doctor.launch.structs import Container, Deployment, Launch, Mount, Unit
from ds_doctor.model import Malformed, Outcome, Reason, Result
from ds_doctor.probes._access_look import allowed
from ds_doctor.probes._serving_user import User
from ds_doctor.probes.model_access import ModelAccess, model_access
from ds_doctor.probes.model_folder import ModelFolder, model_folder
from ds_doctor.rooted import RootedHost
from support import doctor, module_checks

RULES = {"weights-user-cannot-read", "weights-permissions-mixed"}

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become, or give files to, another user")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Another root whose folders everybody may enter, with two users and a group."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text(
        "root:x:0:0::/root:/bin/sh\nserve:x:1500:1500::/srv:/bin/sh\nbroken line\nolga:x:1600:1600::/:/bin/sh\n"
    )
    (tmp_path / "etc" / "group").write_text("root:x:0:\nserve:x:1500:\nmodels:x:1700:olga,serve\n")
    build.sharded(tmp_path / "models" / "m")
    for folder, _, files in os.walk(tmp_path):
        os.chmod(folder, 0o755)
        for name in files:
            os.chmod(f"{folder}/{name}", 0o644)
    return tmp_path


def look(root: Path, user: str | None, model: str = "/models/m") -> ModelAccess:
    fact = model_access(RootedHost(str(root), Asked(model=model, user=user)))
    assert msgspec.json.decode(msgspec.json.encode(fact), type=ModelAccess) == fact
    return fact


def judge(root: Path, user: str | None, model: str = "/models/m") -> dict[str, Result]:
    folder = model_folder(RootedHost(str(root), Asked(model=model)))
    checks = [c for c in module_checks("weights") if set(c.rules) & RULES]
    nothing = {f: Outcome(None, "absent", Reason("no-command")) for f in engine.wanted(checks)}
    facts = {**nothing, ModelFolder: Outcome(folder), ModelAccess: Outcome(look(root, user, model))}
    return {r.rule: r for r in engine.judge(checks, facts, doctor().catalogue, RULES)}


def status(root: Path, user: str | None, model: str = "/models/m") -> str:
    return judge(root, user, model)["weights-user-cannot-read"].status


@pytest.mark.parametrize("user", ["serve", "1500", "1500:1500", "serve:models", "4711", "root"])
def test_a_model_that_is_open_to_all_is_open_to_the_serving_user(root: Path, user: str) -> None:
    assert status(root, user) == "pass"


@pytest.mark.parametrize("user", ["serve", "1500:1500", "4711:4711"])
def test_a_file_for_its_owner_only_is_found(root: Path, user: str) -> None:
    os.chmod(root / "models" / "m" / build.shard(2, 3), 0o600)
    (finding,) = judge(root, user)["weights-user-cannot-read"].findings
    assert finding.on == build.shard(2, 3) and finding.data["mode"] == "0600"
    assert finding.data["repair"] == f"sudo chmod a+r /models/m/{build.shard(2, 3)}"
    assert status(root, "root") == "pass"


@AS_ROOT
def test_the_owner_is_judged_by_the_owner_s_bits_alone(root: Path) -> None:
    path = root / "models" / "m" / "config.json"
    os.chown(path, 1500, 1500)
    os.chmod(path, 0o044)
    assert status(root, "serve") == "fail"
    assert status(root, "olga") == "pass"


@AS_ROOT
def test_a_group_of_the_user_opens_a_file(root: Path) -> None:
    path = root / "models" / "m" / build.shard(1, 3)
    os.chown(path, 0, 1700)
    os.chmod(path, 0o640)
    assert status(root, "serve") == "pass"  # by /etc/group
    assert status(root, "4711:1700") == "pass"
    assert status(root, "1500:1500") == "fail"
    assert judge(root, "4711")["weights-user-cannot-read"].status == "unknown"  # whose groups nobody knows


def test_one_closed_folder_is_one_finding_however_many_files_lie_behind_it(root: Path) -> None:
    os.chmod(root / "models", 0o700)
    (finding,) = judge(root, "serve")["weights-user-cannot-read"].findings
    assert finding.on == "/models" and finding.data["files"] == 8
    assert finding.data["repair"] == "sudo setfacl -m u:1500:x /models"


def test_a_folder_that_may_be_entered_and_not_listed_is_found(root: Path) -> None:
    os.chmod(root / "models" / "m", 0o711)
    (finding,) = judge(root, "serve")["weights-user-cannot-read"].findings
    assert finding.on == "/models/m"


def test_the_folders_behind_a_link_count_too(root: Path) -> None:
    os.renames(root / "models" / "m", root / "data" / "private" / "m")
    (root / "models").mkdir(exist_ok=True)
    (root / "models" / "m").symlink_to("/data/private/m")
    assert status(root, "serve") == "pass"
    os.chmod(root / "data" / "private", 0o700)
    (finding,) = judge(root, "serve")["weights-user-cannot-read"].findings
    assert finding.on == "/data/private"


def test_the_blobs_of_the_hub_cache_are_what_must_be_readable(root: Path) -> None:
    snapshot = build.hub(root / "cache")
    for folder, _, _ in os.walk(root / "cache"):
        os.chmod(folder, 0o755)
    model = "/" + str(snapshot.relative_to(root))
    assert status(root, "serve", model) == "pass"
    blob = (snapshot / build.shard(1, 3)).resolve()
    os.chmod(blob, 0o600)
    (finding,) = judge(root, "serve", model)["weights-user-cannot-read"].findings
    assert finding.on == build.shard(1, 3)
    os.chmod(blob, 0o644)
    os.chmod(blob.parent, 0o700)
    (finding,) = judge(root, "serve", model)["weights-user-cannot-read"].findings
    assert finding.on == "/cache/models--org--name/blobs"


def test_a_name_that_nobody_knows_is_unknown(root: Path) -> None:
    assert look(root, "nobody-here").problem == "user-unknown"
    assert look(root, "serve:nothing-here").problem == "user-unknown"
    assert status(root, "nobody-here") == "unknown"


def test_files_of_different_openness_are_noted_where_nobody_says_who_serves(root: Path) -> None:
    assert judge(root, None)["weights-permissions-mixed"].status == "pass"
    os.chmod(root / "models" / "m" / build.shard(2, 3), 0o600)
    results = judge(root, None)
    assert results["weights-permissions-mixed"].status == "note"
    assert build.shard(2, 3) in results["weights-permissions-mixed"].findings[0].data["names"]
    assert results["weights-user-cannot-read"].status == "skip"
    os.chmod(root / "models", 0o700)  # then others are kept out anyway
    assert judge(root, None)["weights-permissions-mixed"].status == "pass"


def of_launch(root: Path, container: Container | None = None, unit: Unit | None = None) -> ModelAccess:
    launch = Launch(argv=("vllm", "serve", "/m"), engine="vllm", model="/m", container=container)
    deployment = None if unit is None else Deployment(kind="systemd", name="llm", source="llm.service", unit=unit)
    asked = Asked(command=("vllm",), launch=launch, deployment=deployment)
    model = "/models/m" if container is None else None
    return model_access(RootedHost(str(root), msgspec.structs.replace(asked, model=model)))


def test_the_unit_s_user_is_the_serving_user(root: Path) -> None:
    os.chmod(root / "models" / "m" / "config.json", 0o600)
    fact = of_launch(root, unit=Unit(user="serve"))
    assert (fact.uid, fact.source, [b.shown for b in fact.blocked]) == (1500, "unit", ["config.json"])
    assert of_launch(root, unit=Unit()).uid == 0


def test_the_container_s_user_needs_no_way_to_the_source_of_the_mount(root: Path) -> None:
    os.chmod(root / "models", 0o700)
    container = Container(
        program="docker", user="1500:1500", mounts=(Mount(target="/m", kind="bind", source="/models/m"),)
    )
    fact = of_launch(root, container)
    assert (fact.uid, fact.source, fact.files, fact.blocked) == (1500, "container", 8, ())
    os.chmod(root / "models" / "m" / "config.json", 0o600)
    assert [b.shown for b in of_launch(root, container).blocked] == ["config.json"]


def test_numbers_of_another_user_namespace_say_nothing(root: Path) -> None:
    mounts = (Mount(target="/m", kind="bind", source="/models/m"),)
    assert of_launch(root, Container(program="podman", user="1500", mounts=mounts)).problem == "other-namespace"
    assert of_launch(root, Container(program="docker", user="vllm", mounts=mounts)).problem == "image-user"
    assert of_launch(root, Container(program="docker", mounts=mounts)).user is None


def test_an_access_control_list_is_noticed_and_not_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chmod(root / "models" / "m" / "config.json", 0o600)
    monkeypatch.setattr(RootedHost, "has_acl", lambda self, path: path.endswith("config.json"))
    fact = look(root, "serve")
    assert (fact.blocked, fact.unsure.first) == ((), ("config.json",))
    assert status(root, "serve") == "unknown"


@pytest.mark.skipif(shutil.which("setfacl") is None, reason="setfacl is not installed")
def test_a_real_access_control_list_is_seen(root: Path) -> None:
    path = root / "models" / "m" / "config.json"
    assert not Host().has_acl(str(path))
    assert os.system(f"setfacl -m u:1500:r {path}") == 0
    assert Host().has_acl(str(path))


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o200, 0o640, 0o044, 0o755, 0o000])
@pytest.mark.parametrize(("uid", "gid"), [(1, 1), (1, 2), (3, 2), (3, 3)])
@AS_ROOT
def test_the_kernel_agrees(tmp_path: Path, mode: int, uid: int, gid: int) -> None:
    path = tmp_path / "f"
    path.write_text("x")
    os.chown(path, 1, 2)
    os.chmod(path, mode)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 1 == 0:
            os.chmod(folder, folder.stat().st_mode | 0o055)
        if folder.name.startswith("pytest-of"):
            break
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
            path.read_text()
            os._exit(0)
        except OSError:
            os._exit(1)
    may = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    host = Host()
    user = User(name="x", uid=uid, gids=(gid,))
    assert allowed(host, str(path), host.lstat(str(path)), user, 4) is may


def test_links_in_a_circle_end(root: Path) -> None:
    (root / "models" / "m" / "a.json").symlink_to("b.json")
    (root / "models" / "m" / "b.json").symlink_to("a.json")
    assert look(root, "serve").blocked == ()
    with pytest.raises(Malformed):
        RootedHost(str(root)).stat("/models/m/a.json")
