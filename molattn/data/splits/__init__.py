"""Splits into training, validation, test and calibration molecules, folds, and checks for leakage."""
