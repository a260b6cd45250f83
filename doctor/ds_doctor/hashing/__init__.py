"""Reads files whole and hashes them, as fast as disk and processor allow; knows no model, judges nothing.

The one place beside `host` that opens files of the machine: it reads hundreds of gigabytes, which the door's bounded answers cannot carry.
"""
