"""Which Python the engine will use and where it looks for packages, resolved from files as CPython does; never judges."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from ..api import Absent, Host, Malformed, Trouble
from .launch import Launch, asked_launch

# What starts the engine somewhere else: this host's Python says nothing about it.
ELSEWHERE = frozenset(
    [
        *("docker", "podman", "nerdctl", "kubectl", "helm", "apptainer", "singularity", "enroot", "ssh", "oc"),
        *("conda", "mamba", "micromamba", "pixi", "uvx", "pipx"),  # an environment of their own choice
    ]
)
_PYTHON = re.compile(r"(python|pypy)[\d.]*t?\Z")
_CALLED_PYTHON = re.compile(r"(python|pypy)[\d.]*[a-z]?\Z")
_NAME_VERSION = re.compile(r"python(3\.\d+)t?\Z")
_LIB_VERSION = re.compile(r"python(3\.\d+)t?\Z")
PTH_FILES, PTH_LINES = 100, 200  # a site folder with more of either was not made by pip
HEAD = 512  # bytes of a script that hold its `#!` line; Linux itself reads 256


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """One Python: the path it is started by, how it was chosen, its version (3.12), its prefix, its package folders."""

    path: str
    how: str
    version: str
    prefix: str
    base: str
    venv: bool
    site: tuple[str, ...]
    missing: str | None = None  # a VIRTUAL_ENV or CONDA_PREFIX that is set and holds no Python


def interpreter(host: Host) -> Interpreter:
    """The Python that the engine will use. Absent when there is none, or when the command starts it elsewhere."""
    path, how, missing = _chosen(host)
    path = _absolute(host, path)
    if not path.startswith("/") or not _is_file(host, path):
        raise Malformed("python-missing", path=path, how=how)
    # Only what is called python is taken for one, let alone run: `--python ./serve.sh` must not start a server.
    if not (_is_called_python(path) or _is_called_python(host.real(path))):
        raise Malformed("python-not-understood", path=path)
    found = _static(host, path) or _asked(host, path)
    if found is None:
        raise Malformed("python-not-understood", path=path)
    version, prefix, base, venv, system = found
    site = tuple(dict.fromkeys(_site(host, version, prefix, base, venv, system)))
    return Interpreter(
        path=path, how=how, version=version, prefix=prefix, base=base, venv=venv, site=site, missing=missing
    )


# -- choosing ------------------------------------------------------------------------------------------------------


def _is_called_python(path: str) -> bool:
    return _CALLED_PYTHON.match(path.rpartition("/")[2]) is not None


def _chosen(host: Host) -> tuple[str, str, str | None]:
    """(path, how, an environment variable's folder without a Python)."""
    if host.asked.python:
        return host.asked.python, "option", None
    if host.asked.command:
        path = _of_command(host, asked_launch(host.asked))
        if path is not None:
            return path, "command", None
    missing = None
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = host.env.get(name, "").rstrip("/")
        if folder:
            if _is_file(host, f"{folder}/bin/python"):
                return f"{folder}/bin/python", name, missing
            missing = missing or folder
    path = host.which("python3") or host.which("python")
    if path is None:
        raise Absent("no-python")
    return path, "PATH", missing


def _of_command(host: Host, launch: Launch) -> str | None:
    """The interpreter that a launch command runs in, where its files tell."""
    if launch.container is not None:
        raise Absent("python-elsewhere", command=launch.container.program)
    outside = next((u for u in launch.unread if u.id in _STARTED_ELSEWHERE), None)
    if outside is not None:
        raise Absent("python-elsewhere", command=outside.data["program"])
    prefix = launch.environment.get("CONDA_PREFIX", "").rstrip("/")
    for name in launch.wrappers:
        if name in ELSEWHERE:
            if prefix and _is_file(host, f"{prefix}/bin/python"):  # conda run --prefix
                return f"{prefix}/bin/python"
            raise Absent("python-elsewhere", command=name)
        if name == "uv":
            where = launch.folder or host.env.get("PWD", "")
            project = f"{where}/.venv/bin/python"  # uv asks neither VIRTUAL_ENV nor PATH
            if project.startswith("/") and _is_file(host, project):
                return project
    if not launch.argv:
        return None
    first = launch.argv[0].rpartition("/")[2]
    if first in ELSEWHERE:
        raise Absent("python-elsewhere", command=first)
    return _of_word(host, launch.argv[0])


_STARTED_ELSEWHERE = ("launch-container-elsewhere", "launch-started-elsewhere")


def _of_word(host: Host, word: str) -> str | None:
    path = _absolute(host, word) if "/" in word else host.which(word)
    if _PYTHON.match(word.rpartition("/")[2]):
        return path or word  # named and not there: the caller says so
    return shebang(host, path) if path is not None and _is_file(host, path) else None


def shebang(host: Host, path: str) -> str | None:
    """The Python in a script's `#!` line: direct, through env, or in pip's form for long paths."""
    try:
        head = host.read_at(path, 0, HEAD).decode("utf-8", "replace")
    except Trouble:
        return None
    python = parse_shebang(head)
    if python is None or python.startswith("/"):
        return python
    return host.which(python)


def parse_shebang(head: str) -> str | None:
    """The interpreter's path or name in the first lines of a script, when it is a Python."""
    if not head.startswith("#!"):
        return None
    lines = head[2:].splitlines()
    words = lines[0].split() if lines else []
    if len(words) > 1 and words[0].rpartition("/")[2] == "env":
        words = [w for w in words[1:] if not w.startswith("-") and "=" not in w]
    if words and words[0].rpartition("/")[2] == "sh" and len(lines) > 1:
        # '''exec' "/a path/with spaces/bin/python" "$0" "$@"   (distlib, for paths the kernel would cut)
        long = re.match(r"""'''exec' ("?)(/[^"\n]+?)\1 "\$0" """, lines[1])
        words = [long[2]] if long else []
    return words[0] if words and _PYTHON.match(words[0].rpartition("/")[2]) else None


def _absolute(host: Host, path: str) -> str:
    if path.startswith("/"):
        return path
    if "/" not in path:
        return host.which(path) or path
    where = host.env.get("PWD", "")
    return f"{where.rstrip('/')}/{path}" if where.startswith("/") else path


def _is_file(host: Host, path: str) -> bool:
    try:
        return host.stat(path).kind == "file"
    except Trouble:
        return False


# -- where it stands -----------------------------------------------------------------------------------------------

_Place = tuple[str, str, str, bool, bool]  # version, prefix, base prefix, venv, system packages too


def _static(host: Host, path: str) -> _Place | None:
    """As getpath.py of CPython finds it: pyvenv.cfg above or beside the path as given, else the landmark above the real file."""
    folder = path.rpartition("/")[0]
    for prefix in (folder.rpartition("/")[0], folder):
        try:
            keys = parse_pyvenv(host.text(f"{prefix}/pyvenv.cfg", 1 << 16))
        except Trouble:
            continue
        version = _short(keys.get("version") or keys.get("version_info") or "")
        here = _versions(host, prefix, "site-packages")
        if version is None or (here and version not in here):
            version = here[-1] if here else version
        if version is None:
            return None
        base = _base(host, keys.get("home", "").rstrip("/"), path, version)
        return version, prefix, base, True, keys.get("include-system-site-packages", "").lower() == "true"
    real = host.real(_behind_shim(host, path))
    try:
        if host.read_at(real, 0, 4) != b"\x7fELF":
            return None  # a pyenv shim or another script: only running it tells
    except Trouble:
        return None
    named = _NAME_VERSION.match(real.rpartition("/")[2])
    above = real.rpartition("/")[0]
    while above:
        above = above.rpartition("/")[0]
        versions = [named[1]] if named else _versions(host, above, "os.py")[-1:]
        for version in versions:
            if any(_is_file(host, f"{above}/{lib}/python{version}/os.py") for lib in ("lib", "lib64")):
                return version, above, above, False, True
    return None


def _base(host: Host, home: str, path: str, version: str) -> str:
    """The base prefix of a venv: the folder above the real program, or above its home, that holds the library. They are
    two where a link to a Python elsewhere made the venv: /usr/local/bin/python3 -> /usr/bin/python3.12."""
    try:
        program = host.real(path)
    except Trouble:
        program = path
    for above in (program.rpartition("/")[0], home):
        while above := above.rpartition("/")[0]:  # never /: its lib is /usr/lib on a merged system
            if any(_is_file(host, f"{above}/{lib}/python{version}/os.py") for lib in ("lib", "lib64")):
                return above
    return home.rpartition("/")[0] or "/usr"


def _behind_shim(host: Host, path: str) -> str:
    """What a pyenv shim starts: the version named by PYENV_VERSION, a .python-version above the folder, or globally."""
    root, shims, name = path.rpartition("/shims/")
    if not shims or not host.exists(f"{root}/versions"):
        return path
    chosen = host.env.get("PYENV_VERSION", "")
    above = host.env.get("PWD", "")
    files = []
    while above.startswith("/"):
        files.append(f"{above}/.python-version")
        above = above.rpartition("/")[0]
    for file in [*files, f"{root}/version"]:
        if chosen:
            break
        try:
            chosen = host.text(file, 1 << 12)
        except Trouble:
            continue
    first = (chosen.replace(":", " ").split() or ["system"])[0]
    real = f"{root}/versions/{first}/bin/{name}"
    return real if "/" not in first and _is_file(host, real) else path


def _asked(host: Host, path: str) -> _Place | None:
    """Ask the interpreter itself, without site and user's settings; never under another root."""
    if not host.live:
        return None
    code = (
        "import sys; print('\\n'.join(('%d.%d' % sys.version_info[:2], sys.prefix, sys.base_prefix, sys.executable)))"
    )
    try:
        said = host.run([path, "-I", "-S", "-c", code], timeout_s=5.0)
    except Absent:
        return None
    lines = said.out.splitlines()
    if said.status != 0 or len(lines) != 4 or not re.match(r"3\.\d+\Z", lines[0]) or not lines[1].startswith("/"):
        return None
    # Without site a venv does not show in sys.prefix; its executable does.
    return _static(host, lines[3]) or (lines[0], lines[1], lines[2], lines[1] != lines[2], True)


def parse_pyvenv(text: str) -> dict[str, str]:
    """`key = value` lines of pyvenv.cfg; keys in small letters."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {k.strip().lower(): v.strip() for k, equals, v in pairs if equals}


def _short(version: str) -> str | None:
    m = re.match(r"3\.\d+", version)
    return m[0] if m else None


def _versions(host: Host, prefix: str, holds: str) -> list[str]:
    """The Python versions with a lib/pythonX.Y/`holds` under a prefix, oldest first."""
    got: set[str] = set()
    for lib in ("lib", "lib64"):
        try:
            names = host.names(f"{prefix}/{lib}")
        except Trouble:
            continue
        got.update(m[1] for m in map(_LIB_VERSION.match, names) if m and host.exists(f"{prefix}/{lib}/{m[0]}/{holds}"))
    return sorted(got, key=lambda v: int(v[2:]))


# -- package folders -----------------------------------------------------------------------------------------------


def _site(host: Host, version: str, prefix: str, base: str, venv: bool, system: bool) -> Iterator[str]:
    """The package folders in the order of sys.path: PYTHONPATH, then each site folder followed by its .pth lines."""
    for entry in host.env.get("PYTHONPATH", "").split(":"):
        if entry.startswith("/") and _is_folder(host, entry):
            yield entry.rstrip("/") or "/"
    if venv:
        yield from _expanded(host, _purelib(prefix, version))
    if not venv or system:
        if not host.env.get("PYTHONNOUSERSITE"):
            home = host.env.get("HOME", "")
            user = host.env.get("PYTHONUSERBASE") or (f"{home}/.local" if home.startswith("/") else "")
            if user:
                yield from _expanded(host, [f"{user}/lib/python{version}/site-packages"])
        folders = _purelib(base, version)
        if base == "/usr":  # Debian's and Fedora's own places
            folders = [
                f"/usr/local/lib/python{version}/dist-packages",
                f"/usr/local/lib64/python{version}/site-packages",
                f"/usr/local/lib/python{version}/site-packages",
                *folders,
                "/usr/lib/python3/dist-packages",
                f"/usr/lib/python{version}/dist-packages",
            ]
        yield from _expanded(host, folders)


def _purelib(prefix: str, version: str) -> list[str]:
    return [f"{prefix}/{lib}/python{version}/site-packages" for lib in ("lib", "lib64")]


def _expanded(host: Host, folders: list[str]) -> Iterator[str]:
    seen = set()
    for folder in folders:
        try:
            names = host.names(folder)
            real = host.real(folder)
        except Trouble:
            continue
        if real in seen:  # lib64 -> lib
            continue
        seen.add(real)
        yield folder
        for name in [n for n in names if n.endswith(".pth") and not n.startswith(".")][:PTH_FILES]:
            try:
                text = host.text(f"{folder}/{name}", 1 << 16)
            except Trouble:
                continue
            for line in parse_pth(text)[:PTH_LINES]:
                path = line if line.startswith("/") else f"{folder}/{line}"
                if _is_folder(host, path):
                    yield path.rstrip("/")


def parse_pth(text: str) -> list[str]:
    """The folder lines of a .pth file, as site.py takes them: no comments, no lines that begin with import."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(("#", "import ", "import\t")) and "\0" not in line]


def _is_folder(host: Host, path: str) -> bool:
    try:
        return host.stat(path).kind == "directory"
    except Trouble:
        return False
