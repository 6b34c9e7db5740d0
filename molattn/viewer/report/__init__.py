"""The report of a run, or of two: one HTML file that needs no network.

`run_files` reads a run folder, and `errors_by_molecule` computes the errors. `run_sections`, `error_sections` and
`payload` compute the data of the page, or `comparison` for two runs. `document` writes the HTML file, in which
`report.js` of `molattn.viewer.web` shows the data.
"""
