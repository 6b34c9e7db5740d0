// Code, tables and equations that are wider than the page scroll: by the keyboard too, once they can have the focus.
function reachScrollers() {
  for (const part of document.querySelectorAll(".highlight pre, .table-wrapper, .equation")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
}
addEventListener("load", reachScrollers);
addEventListener("resize", reachScrollers);
