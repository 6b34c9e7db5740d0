"""The command line: a module for each command. Modules that import slowly are imported when a command needs them."""
