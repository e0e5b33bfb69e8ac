"""`python -m hawser.cli`."""

from hawser.cli.main import main

main()
