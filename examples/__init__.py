"""Trainings that use molattn's layers for other things than properties of molecules."""
