"""The report of a run, or of two: one HTML file that needs no network.

`run_files` reads a run folder, `errors_by_molecule` finds where the model errs, `sections` and `payload` make the data
of the page, and `document` writes it into one file; `report.js` in `molattn.viewer.web` shows it.
"""
