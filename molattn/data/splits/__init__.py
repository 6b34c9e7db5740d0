"""Splits into training, validation, test and calibration molecules; folds; checks for leakage."""
