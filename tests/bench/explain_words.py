"""How far the likeness of words may be trusted: the benchmark that sets the thresholds in explain/likeness.py.

    python tests/bench/explain_words.py

Each phrase of the catalogue is asked as if it were not in it: is its entry found by the other phrases, and how sure? Beside
it sentences that are about something else, which must find nothing. Prints, for thresholds, how many phrases still get an
answer, how many of these answers are right, and how many of the strangers get one.
"""

from __future__ import annotations

import os
from pathlib import Path

from ds_doctor.catalogue import together
from ds_doctor.cli.explaining import _folders
from ds_doctor.compiled import load_whole
from ds_doctor.explain import known
from ds_doctor.explain.index import every
from ds_doctor.explain.likeness import scores

STRANGERS = Path(__file__).parent.parent.parent / "fixtures" / "explain" / "strangers.txt"


def main() -> None:
    one, _ = known.load(_folders(), os.environ)
    index = one.index
    whole = together(load_whole(folder) for folder in _folders())
    number = 0
    first: list[tuple[float, bool, bool]] = []
    for at, (_, _, entry) in enumerate(every(whole)):
        said = (*entry.phrases.en, *entry.phrases.zh)
        for i, text in enumerate(said):
            found = sorted(scores(index, text, number + i).items(), key=lambda p: -p[1])
            if found:
                first.append((found[0][1], found[0][0] == at, at in [e for e, _ in found[:3]]))
            else:
                first.append((0.0, False, False))
        number += sum(1 for about in index.about if about == at)
    strange = [max(scores(index, t).values(), default=0.0) for t in STRANGERS.read_text("utf-8").splitlines() if t]
    print(f"{len(first)} phrases, each without itself; {len(strange)} strangers")
    print("threshold  answered  first right  in three  strangers answered")
    for n in range(25, 95, 5):
        level = n / 100
        some = [f for f in first if f[0] >= level]
        right = sum(f[1] for f in some) / max(1, len(some))
        three = sum(f[2] for f in some) / max(1, len(some))
        print(
            f"{level:9.2f} {len(some) / len(first):9.0%} {right:12.0%} {three:9.0%} {sum(s >= level for s in strange):12d}"
        )


if __name__ == "__main__":
    main()
