"""What lists of checksums say: text in, names and digests out; reads no file, knows no host."""

from .reading import LIMIT, is_list_name, parse
from .structs import Algorithm, Entry, Manifest, NotAManifest, Problem
from .writing import write, write_sums

__all__ = [
    "LIMIT",
    "Algorithm",
    "Entry",
    "Manifest",
    "NotAManifest",
    "Problem",
    "is_list_name",
    "parse",
    "write",
    "write_sums",
]
