"""`python -m molattn`: the command started as a module, as torchrun does."""

from molattn.cli.main import main

if __name__ == "__main__":
    main()
