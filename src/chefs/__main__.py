"""`python -m chefs`: the command, where scripts are not on the path."""

from chefs.cli import main

if __name__ == "__main__":
    main()
