"""``python -m cautious``: the command line."""

from cautious.cli import main

if __name__ == "__main__":
    main()
