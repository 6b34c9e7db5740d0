"""The command line: one file per command, thin; nothing heavy is imported until a command runs."""
