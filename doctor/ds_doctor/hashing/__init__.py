"""Reads files whole and hashes them, as fast as disk and processor allow; knows no model, judges nothing.

The one place beside `host` that opens files of the machine: it reads hundreds of gigabytes, which the door's bounded answers cannot carry.
"""

from .files import hash_files as hash_files
from .structs import Done as Done
from .structs import Identity as Identity
from .structs import Job as Job
