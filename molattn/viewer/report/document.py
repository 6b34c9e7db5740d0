"""The report as one self-contained HTML document."""

from typing import Any

from molattn.viewer.web.document import START, html_document, script, style


def report_document(content: dict[str, Any]) -> str:
    """The HTML document that shows the data of `report_payload` or `comparison_payload`; it needs no network."""
    title = f"Report of {' and '.join(content['runs'])}"
    return html_document(title, style("report.css"), script("report.js") + START, content)
