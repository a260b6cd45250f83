"""`python -m ds_doctor`: the same as the console script."""

from .cli import main

main()
