"""`python -m molattn`: the command, for whoever starts it as a module, as torchrun does."""

from molattn.cli.main import main

if __name__ == "__main__":
    main()
