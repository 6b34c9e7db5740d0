"""The interactive page: data written by Python, shown by an ES module and a style sheet.

`payload` computes the data and the drawings of the molecules, and `document` writes everything into one file;
`drawing.js` and `page.js` show it, in a browser or, with anywidget, in a notebook.
"""

from molattn.viewer.web.document import Page, framed, page, write_page

__all__ = ["Page", "framed", "page", "write_page"]
