"""References: names of the Python API from anywhere, source files, and files of the repository outside the site."""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

_SOURCE_FILE = re.compile(r"(molattn/[\w/]+)\.py")
_EXTERNAL_OR_PRIVATE = ("class", "obj", "data", "exc", "func", "meth", "attr", "mod")


def setup(app: Sphinx) -> None:
    """Register the events."""
    app.connect("missing-reference", _resolve_name)
    # Before Sphinx collects the files to be downloaded.
    app.connect("doctree-read", _unlink_files, priority=100)
    app.connect("doctree-resolved", _link_source_files)


def _resolve_name(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, text: nodes.Element) -> Any:
    """A name of Python that is not found where it is written.

    It is the public name that ends so, if there is exactly one; otherwise code: a name of another package, a parameter,
    or a part that is not public. Lower-case names without a package are ambiguous with parameters, and stay code.
    """
    if node.get("refdomain") != "py" or node.get("reftype") not in _EXTERNAL_OR_PRIVATE:
        return None
    target = str(node.get("reftarget", ""))
    last = target.rpartition(".")[2]
    is_ours = target.startswith("molattn.") or "." not in target
    if is_ours and (last != last.lower() or "_" in last or "." in target):
        domain = env.domains.python_domain
        found = sorted((name for name in domain.objects if name.rpartition(".")[2] == last), key=lambda n: n.count("."))
        found = [name for name in found if name.count(".") == found[0].count(".")]
        if len(found) == 1:
            entry = domain.objects[found[0]]
            uri = app.builder.get_relative_uri(node.get("refdoc", ""), entry.docname) + f"#{entry.node_id}"
            return nodes.reference("", "", text, internal=True, refuri=uri, reftitle=found[0])
    return text


def _unlink_files(app: Sphinx, doctree: nodes.document) -> None:
    """Turn links to files of the repository that are not in the site into their text."""
    folder = Path(app.env.doc2path(app.env.docname)).parent
    for node in list(doctree.findall(addnodes.download_reference)):
        node.replace_self(_as_code(node))
    for node in list(doctree.findall(addnodes.pending_xref)):
        target = str(node.get("reftarget", "")).partition("#")[0]
        if node.get("reftype") == "myst" and target and (folder / target).exists():
            node.replace_self(_as_code(node))


def _as_code(node: nodes.Element) -> nodes.literal:
    return nodes.literal("", node.astext())


def _link_source_files(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Link `molattn/attention/attend.py` to the page of its code, if viewcode makes one."""
    modules: dict[str, Any] = getattr(app.env, "_viewcode_modules", {})
    for node in list(doctree.findall(nodes.literal)):
        found = _SOURCE_FILE.fullmatch(node.astext())
        if found is None or isinstance(node.parent, nodes.reference | addnodes.pending_xref):
            continue
        page = found[1].removesuffix("/__init__")
        if modules.get(page.replace("/", ".")):
            uri = app.builder.get_relative_uri(docname, f"_modules/{page}")
            node.replace_self(nodes.reference("", "", node.deepcopy(), internal=True, refuri=uri))
