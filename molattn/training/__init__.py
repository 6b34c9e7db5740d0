"""Training: settings, data preparation, fitting, metrics, calibration, and the run folder."""
