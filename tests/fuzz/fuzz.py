"""Fuzzes one target for a while: `python tests/fuzz/fuzz.py manifest --seconds 60`.

Uses atheris (libFuzzer) where it is installed, else the loop of fuzz_loop.py. What does something new is kept under --corpus (default: a folder
of its own, `tests/fuzz/found/TARGET`, that is not checked in); what breaks the target is written beside it and ends the run with status 1.
`--minimise` writes the fewest inputs that cover as much into the checked-in corpus.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

from fuzz_loop import Coverage, Found, fuzz

HERE = Path(__file__).parent


def seeds(target: str, *more: Path) -> list[bytes]:
    folders = [HERE / "corpus" / target, *more]
    return [
        p.read_bytes() for folder in folders if folder.is_dir() for p in sorted(folder.iterdir()) if p.name[0] != "."
    ]


def keep(folder: Path, data: bytes, before: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (before + hashlib.sha1(data).hexdigest()[:12])
    path.write_bytes(data)
    return path


def with_atheris(target: str, seconds: float, corpus: Path) -> None:
    import atheris

    with atheris.instrument_imports(include=["ds_doctor.manifest", "ds_doctor.probes"]):
        import fuzz_targets
    words = corpus.parent / f"{target}.dict"
    corpus.mkdir(parents=True, exist_ok=True)
    for data in seeds(target):
        keep(corpus, data)
    words.write_text("".join('"' + "".join(f"\\x{b:02x}" for b in word) + '"\n' for word in fuzz_targets.WORDS[target]))
    options = [
        f"-max_total_time={seconds:.0f}",
        "-max_len=4096",
        "-timeout=5",
        f"-dict={words}",
        "-print_final_stats=1",
        f"-artifact_prefix={corpus.parent}/broken-{target}-",
    ]
    atheris.Setup([sys.argv[0], str(corpus), *options], lambda data: fuzz_targets.TARGETS[target](data) and None)
    atheris.Fuzz()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("target")
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--corpus", type=Path)
    options.add_argument("--plain", action="store_true", help="the loop in Python, even where atheris is installed")
    options.add_argument("--minimise", action="store_true")
    asked = options.parse_args()
    corpus = asked.corpus or HERE / "found" / asked.target
    if not asked.plain and not asked.minimise:
        try:
            with_atheris(asked.target, asked.seconds, corpus)
        except ImportError:
            print("no atheris here (pip install atheris); with the loop in Python", file=sys.stderr)

    from fuzz_targets import TARGETS, WORDS

    target = TARGETS[asked.target]
    if asked.minimise:
        coverage = Coverage()
        checked_in = HERE / "corpus" / asked.target
        every = sorted(set(seeds(asked.target, corpus)), key=lambda d: (len(d), d))
        fewest = [data for data in every if coverage.run(target, data)[0]]
        for path in [p for p in checked_in.glob("*") if p.name[0] != "."] if checked_in.is_dir() else []:
            path.unlink()
        for data in fewest:
            keep(checked_in, data)
        print(f"{len(fewest)} of {len(every)} inputs cover as much")
        return 0
    try:
        kept = fuzz(target, seeds(asked.target, corpus), WORDS[asked.target], seconds=asked.seconds, seed=asked.seed)
    except Found as found:
        print(f"{found}\nwritten to {keep(corpus.parent, found.data, f'broken-{asked.target}-')}", file=sys.stderr)
        return 1
    for data in kept:
        keep(corpus, data)
    print(f"{len(kept)} inputs did something new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
