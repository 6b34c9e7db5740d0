"""The interactive page: Python writes what it shows, one ES module and one style sheet show it.

`payload` says what the data are, `document` puts all into one file, `drawing` says where the atoms are; `page.js` does
the rest, in a browser or, with anywidget, in a notebook.
"""

from molattn.viewer.web.document import framed, page, write_page

__all__ = ["framed", "page", "write_page"]
