"""The configuration of the documentation site: `python docs/build_site.py` builds it."""

import os
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_ext"))

import molattn  # noqa: E402 (the extensions are next to this file)

project = "molattn"
author = "the authors of molattn"
version = release = molattn.__version__

# The sources lie in the repository as the repository shows them: the folder of the sources is its root, so that the
# relative links of the pages are those of the site, too.
root_doc = "README"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/*.md",
    "docs/guide/*.md",
    "docs/explanation/*.md",
    "docs/reference/**",
    "docs/results/*.md",
    "notebooks/*.ipynb",
    "benchmarks/README.md",
    "datasets/README.md",
    "bases/README.md",
]
exclude_patterns = ["build", "dist", "runs", ".*", "molattn", "tests", "tools", "examples", "**/.ipynb_checkpoints"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "molattn_docs",
]
nitpicky = True
smartquotes = False
highlight_language = "text"  # most blocks without a language are equations

# Markdown
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4  # as the repository's web view names headings

# Notebooks are committed without outputs. MOLATTN_DOCS_EXECUTE=1 runs them, MOLATTN_FAST=1 with few steps.
nb_execution_mode = "cache" if os.environ.get("MOLATTN_DOCS_EXECUTE") == "1" else "off"
nb_execution_timeout = 1200
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_cache_path = str(DOCS.parent / "build" / "notebooks")
nb_merge_streams = True
nb_code_prompt_show = "Show this cell"  # the solutions of exercises, and checks
nb_code_prompt_hide = "Hide this cell"
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # the default is an address on the network

# Python
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_inherit_docstrings = False  # those of torch say nothing of a layer
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
python_maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"
viewcode_follow_imported_members = True

# HTML
html_theme = "furo"
html_title = f"molattn {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_extra_path = ["_site/index.html"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_show_search_summary = False  # a browser does not let a page that was opened from a folder fetch other pages
templates_path = ["_site/templates"]
pygments_style = "a11y-light"  # code in colours that have the contrast which WCAG asks for
pygments_dark_style = "a11y-dark"
