"""The interactive page: Python computes its data, and an ES module with a style sheet shows them.

`payload` computes the data and the drawings of the molecules, and `document` writes data, script and style into one
file. The script is `elements.js`, `drawing.js` and `page.js`; it runs in a browser or, with anywidget, in a notebook.
"""

from molattn.viewer.web.document import Page, framed, page, write_page

__all__ = ["Page", "framed", "page", "write_page"]
