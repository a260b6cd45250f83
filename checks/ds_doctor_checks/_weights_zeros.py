"""Which runs of zeros are data that was never written, and which may be meant; it looks at nothing."""

from __future__ import annotations

from ds_doctor.probes.zero_runs import ZeroRun

BIG = 1 << 20  # bytes; smaller matrices of zeros stand in published checkpoints (gates, layer scales of new modules)
SHARE = 0.1  # of the file's data: in a small file a small matrix is big
LONG = 4096  # bytes of a run that begins or ends within a row: shorter ones may be chance
PAGE = 4096


def is_unwritten(run: ZeroRun) -> bool:
    """Whether nobody can have meant it: the whole file, everything from a place on, or a run that breaks off within a row."""
    data = run.size - run.data_begin
    to_end = run.end >= run.size
    if to_end and run.matrices and (run.begin <= run.data_begin or run.matrices > 1 or run.cut is not None):
        return True
    if to_end and run.matrices and (run.hole or run.matrix_bytes >= BIG):
        return True
    if run.cut is None and run.cut_end is None:
        return False
    if run.matrices:
        return run.end - run.begin >= min(LONG, SHARE * data)
    # Within one matrix: padded rows beside padded columns also begin within a row, but at no edge of a page of the file.
    edges = [e for e, name in ((run.begin, run.cut), (run.end, run.cut_end)) if name is not None]
    at_page = any(e % PAGE < 8 or e % PAGE > PAGE - 8 for e in edges)
    return run.end - run.begin >= LONG and (run.hole or at_page)


def is_zeroed(run: ZeroRun) -> bool:
    """Whether whole weight matrices are zero, and big enough to matter."""
    return run.matrices > 0 and run.matrix_bytes >= min(BIG, SHARE * (run.size - run.data_begin))
