"""`python -m gedilearn.cli` is `gedi`."""

from gedilearn.cli import main

main()
