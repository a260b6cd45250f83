"""The engine's Python is found from files alone: venvs, Debian, conda, shims, console scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor import snapshot
from ds_doctor.host import Asked, Host
from ds_doctor.model import Absent, Malformed, Outcome, Trouble
from ds_doctor.probes import _interpreter, python_env
from ds_doctor.probes.python_env import packages, torch_build
from ds_doctor.rooted import RootedHost

ELF = b"\x7fELF" + bytes(60)


def put(root: Path, path: str, data: bytes | str = "", mode: int = 0o644) -> Path:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    file.chmod(mode)
    return file


def debian(root: Path) -> None:
    put(root, "/usr/bin/python3.12", ELF, 0o755)
    (root / "usr/bin/python3").symlink_to("python3.12")
    put(root, "/usr/lib/python3.12/os.py")
    put(root, "/usr/lib/python3/dist-packages/PyYAML-6.0.1.egg-info/PKG-INFO", "Version: 6.0.1\n")
    put(root, "/usr/local/lib/python3.12/dist-packages/numpy-2.1.0.dist-info/METADATA", "Version: 2.1.0\n")


def venv(root: Path, system: str = "false") -> None:
    debian(root)
    put(root, "/opt/venv/pyvenv.cfg", f"home = /usr/bin\ninclude-system-site-packages = {system}\nversion = 3.12.3\n")
    (root / "opt/venv/bin").mkdir(parents=True)
    (root / "opt/venv/bin/python").symlink_to("/usr/bin/python3.12")
    site = "/opt/venv/lib/python3.12/site-packages"
    put(
        root,
        f"{site}/torch/version.py",
        "__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n",
    )
    put(
        root,
        f"{site}/torch-2.11.0.dist-info/METADATA",
        'Metadata-Version: 2.1\nName: torch\nVersion: 2.11.0\nRequires-Dist: triton==3.6.0; platform_system == "Linux"\n'
        'Requires-Dist: optree>=0.13.0; extra == "optree"\n\nRequires-Dist: not-a-field\n',
    )


def rooted(root: Path, **asked: object) -> RootedHost:
    return RootedHost(str(root), Asked(**asked))  # type: ignore[arg-type]


def test_a_venv_holds_only_its_own_packages(tmp_path: Path) -> None:
    venv(tmp_path)
    got = packages(rooted(tmp_path, python="/opt/venv/bin/python"))
    assert (got.version, got.prefix, got.venv, got.how) == ("3.12", "/opt/venv", True, "option")
    assert set(got.packages) == {"torch"}
    assert got.packages["torch"].requires == ('triton==3.6.0; platform_system == "Linux"',)
    torch = torch_build(rooted(tmp_path, python="/opt/venv/bin/python"))
    assert (torch.version, torch.cuda, torch.hip) == ("2.11.0+cu130", "13.0", None)
    assert torch.folder == "/opt/venv/lib/python3.12/site-packages/torch"


def test_a_venv_with_system_packages_sees_them_after_its_own(tmp_path: Path) -> None:
    venv(tmp_path, "true")
    put(tmp_path, "/usr/lib/python3/dist-packages/torch-1.0.dist-info/METADATA", "Version: 1.0\n")
    got = packages(rooted(tmp_path, python="/opt/venv/bin/python"))
    assert got.packages["torch"].version == "2.11.0"
    assert got.packages["pyyaml"].version == "6.0.1"


def test_a_venv_that_a_link_made_has_the_base_of_the_real_python(tmp_path: Path) -> None:
    """As where /usr/local/bin/python3 is a link into /usr/bin: Python.h stands below /usr/include then."""
    link = tmp_path / "local/bin/python3"
    link.parent.mkdir(parents=True)
    link.symlink_to(os.path.realpath(sys.executable))
    subprocess.run([link, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = str(tmp_path / "venv/bin/python3")
    said = subprocess.run(
        [python, "-c", "import sys; print(sys.base_prefix)"], check=True, capture_output=True, text=True
    )
    assert _interpreter.interpreter(Host(Asked(python=python))).base == said.stdout.strip()


def test_debians_python_has_dist_packages(tmp_path: Path) -> None:
    debian(tmp_path)
    got = packages(rooted(tmp_path))
    assert (got.python, got.how, got.version, got.prefix) == ("/usr/bin/python3", "PATH", "3.12", "/usr")
    assert got.packages["numpy"].version == "2.1.0" and got.packages["pyyaml"].version == "6.0.1"


def test_a_console_script_names_its_python(tmp_path: Path) -> None:
    venv(tmp_path)
    put(tmp_path, "/opt/venv/bin/vllm", "#!/opt/venv/bin/python\nimport sys\n", 0o755)
    for command in (("/opt/venv/bin/vllm", "serve"), ("env", "-u", "X", "A=b", "numactl", "-N0", "/opt/venv/bin/vllm")):
        got = packages(rooted(tmp_path, command=command))
        assert (got.python, got.how) == ("/opt/venv/bin/python", "command")


def test_a_command_that_starts_a_container_says_nothing_about_this_python(tmp_path: Path) -> None:
    debian(tmp_path)
    with pytest.raises(Absent, match="python-elsewhere"):
        packages(rooted(tmp_path, command=("sudo", "docker", "run", "vllm/vllm-openai")))


def test_conda_run_is_not_judged_by_condas_own_python(tmp_path: Path) -> None:
    put(tmp_path, "/opt/conda/bin/conda", "#!/opt/conda/bin/python\n", 0o755)
    host = rooted(tmp_path, command=("/opt/conda/bin/conda", "run", "-n", "serve", "vllm", "serve", "m"))
    with pytest.raises(Absent, match="python-elsewhere"):
        packages(host)


def test_uv_run_uses_the_environment_of_the_project(tmp_path: Path) -> None:
    venv(tmp_path)
    (tmp_path / "srv").mkdir()
    (tmp_path / "srv/.venv").symlink_to("/opt/venv")
    host = rooted(tmp_path, command=("uv", "run", "vllm", "serve", "m"))
    host.env = {"PWD": "/srv", "PATH": "/usr/bin"}
    got = _interpreter.interpreter(host)
    assert (got.path, got.how) == ("/srv/.venv/bin/python", "command")


def test_a_virtual_env_that_is_gone_is_said(tmp_path: Path) -> None:
    debian(tmp_path)
    host = rooted(tmp_path)
    host.env = {"VIRTUAL_ENV": "/gone"}
    got = packages(host)
    assert (got.how, got.missing) == ("PATH", "/gone")


def test_a_pyenv_shim_is_resolved_without_running_it(tmp_path: Path) -> None:
    put(tmp_path, "/root/.pyenv/shims/python3", "#!/usr/bin/env bash\nexec false\n", 0o755)
    put(tmp_path, "/root/.pyenv/version", "3.11.7\n")
    put(tmp_path, "/root/.pyenv/versions/3.11.7/bin/python3.11", ELF, 0o755)
    (tmp_path / "root/.pyenv/versions/3.11.7/bin/python3").symlink_to("python3.11")
    put(tmp_path, "/root/.pyenv/versions/3.11.7/lib/python3.11/os.py")
    (tmp_path / "root/.pyenv/versions/3.11.7/lib/python3.11/site-packages").mkdir()
    host = rooted(tmp_path)
    host.env = {"PATH": "/root/.pyenv/shims"}
    got = packages(host)
    assert (got.version, got.prefix) == ("3.11", "/root/.pyenv/versions/3.11.7")


def test_conda_records_stand_in_for_missing_dist_infos(tmp_path: Path) -> None:
    put(tmp_path, "/opt/conda/bin/python3.11", ELF, 0o755)
    (tmp_path / "opt/conda/bin/python").symlink_to("python3.11")
    put(tmp_path, "/opt/conda/lib/python3.11/os.py")
    (tmp_path / "opt/conda/lib/python3.11/site-packages").mkdir()
    put(tmp_path, "/opt/conda/conda-meta/pytorch-2.4.0-py3.11_cuda12.4_cudnn9.1.0_0.json", "{}")
    host = rooted(tmp_path)
    host.env = {"CONDA_PREFIX": "/opt/conda"}
    got = packages(host)
    assert (got.how, got.packages["torch"].version) == ("CONDA_PREFIX", "2.4.0")


def test_what_pip_left_behind_is_seen(tmp_path: Path) -> None:
    venv(tmp_path)
    site = "/opt/venv/lib/python3.12/site-packages"
    put(tmp_path, f"{site}/~orch/x")
    put(tmp_path, f"{site}/~orch-2.10.0.dist-info/METADATA", "Version: 2.10.0\n")
    put(tmp_path, f"{site}/torch-2.10.0.dist-info/METADATA", "Version: 2.10.0\n")
    put(tmp_path, f"{site}/triton-3.6.0.dist-info/RECORD")
    put(tmp_path, f"{site}/nvidia_nccl_cu13-2.28.9.dist-info/METADATA", b"\xff\xfe")
    got = packages(rooted(tmp_path, python="/opt/venv/bin/python"))
    assert got.leftovers == (f"{site}/~orch", f"{site}/~orch-2.10.0.dist-info")
    assert got.doubled == {"torch": ("2.10.0", "2.11.0")}
    assert set(got.broken) == {f"{site}/triton-3.6.0.dist-info", f"{site}/nvidia_nccl_cu13-2.28.9.dist-info"}


def test_pth_lines_and_pythonpath_lead_to_further_folders(tmp_path: Path) -> None:
    venv(tmp_path)
    site = "/opt/venv/lib/python3.12/site-packages"
    put(tmp_path, f"{site}/e.pth", "# no\nimport os; os.x\n/src/vllm\n../nowhere\n")
    put(tmp_path, "/src/vllm/vllm-0.33.0.dist-info/METADATA", "Version: 0.33.0\n")
    put(tmp_path, "/extra/triton-9.dist-info/METADATA", "Version: 9\n")
    host = rooted(tmp_path, python="/opt/venv/bin/python")
    host.env = {"PYTHONPATH": "/extra:/none"}
    got = packages(host)
    assert got.site == ("/extra", site, "/src/vllm")
    assert got.packages["vllm"].version == "0.33.0" and got.packages["triton"].version == "9"


def test_what_is_no_python_is_malformed(tmp_path: Path) -> None:
    put(tmp_path, "/bin/x", "#!/bin/sh\n", 0o755)
    for python in ("/bin/x", "/none", "/bin"):
        with pytest.raises(Malformed):
            packages(rooted(tmp_path, python=python))


def test_this_very_python_is_resolved_as_it_sees_itself() -> None:
    got = packages(Host(Asked(python=sys.executable), env={"PATH": os.environ["PATH"]}))
    assert got.version == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert os.path.realpath(got.prefix) == os.path.realpath(sys.prefix)
    assert "msgspec" in got.packages


@pytest.mark.parametrize(
    ("head", "python"),
    [
        ("#!/opt/venv/bin/python\n", "/opt/venv/bin/python"),
        ("#!/usr/bin/env -S python3.12 -I\n", "python3.12"),
        ("#!/bin/sh\n'''exec' \"/a b/bin/python\" \"$0\" \"$@\"\n' '''\n", "/a b/bin/python"),
        ("#!/bin/sh\n'''exec' /a/bin/python3 \"$0\" \"$@\"\n", "/a/bin/python3"),
        ("#!/bin/bash\n", None),
        ("#!", None),
        ("", None),
    ],
)
def test_a_script_says_its_python(head: str, python: str | None) -> None:
    assert _interpreter.parse_shebang(head) == python


@given(st.text())
def test_parsers_survive_any_text(text: str) -> None:
    _interpreter.parse_shebang(text)
    _interpreter.parse_shebang("#!" + text)
    _interpreter.parse_pyvenv(text)
    _interpreter.parse_pth(text)
    python_env.parse_requires(text)
    python_env.parse_dist_name(text + ".dist-info")
    python_env.parse_dist_name(text + ".egg-info")
    try:
        python_env.parse_torch_version(text)
    except Malformed:
        pass


def test_hostile_folders_cost_only_themselves(tmp_path: Path) -> None:
    venv(tmp_path)
    site = tmp_path / "opt/venv/lib/python3.12/site-packages"
    os.mkfifo(site / "x.pth")
    (site / "vllm-0.33.0.dist-info").mkdir()
    os.mkfifo(site / "vllm-0.33.0.dist-info/METADATA")
    (site / "loop").symlink_to("loop")
    (site / "loop.pth").write_text("loop\n" * 100_000)
    os.mkdir(os.fsencode(site) + b"/~\xff\xfe")
    os.mkdir(os.fsencode(site) + b"/\xff-1.0.dist-info")
    got = packages(rooted(tmp_path, python="/opt/venv/bin/python"))
    assert got.packages["torch"].version == "2.11.0" and got.packages["vllm"].version == "0.33.0"
    assert any(b.endswith("vllm-0.33.0.dist-info") for b in got.broken)
    kept = snapshot.write({type(got): Outcome(got)}, Asked(), "0", "")
    assert "~\N{REPLACEMENT CHARACTER}" in kept.decode("utf-8")


def test_a_python_that_hangs_or_lies_is_not_believed(tmp_path: Path) -> None:
    for text in ("exec sleep 60", "echo 3.12; echo /x", "echo '3.12\n\n\n'", "kill -9 $$", "head -c 3000000 /dev/zero"):
        shim = put(tmp_path, "/shim", f"#!/bin/sh\n{text}\n", 0o755)
        host = Host(Asked(python=str(shim)), env={"PATH": os.environ["PATH"]})
        host.deadline = 0.0  # no patience at all
        with pytest.raises(Trouble):
            packages(host)
