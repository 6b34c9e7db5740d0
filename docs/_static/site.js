// Code, tables and equations that are wider than the page scroll: by the keyboard too, once they can have the focus.
function reachScrollers() {
  for (const part of document.querySelectorAll(".highlight pre, .table-wrapper, .equation")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
}
addEventListener("load", reachScrollers);
addEventListener("resize", reachScrollers);

// A hosted site has its versions side by side, each in a folder, and above them versions.json: their folders, as
// ["main", "v0.1.0"]. Where there is no such file, as in a site that was built on this machine, nothing is shown.
async function offerVersions() {
  const place = document.getElementById("versions");
  if (!place || location.protocol === "file:") return;
  const site = new URL(document.documentElement.dataset.content_root, location.href);
  const answer = await fetch(new URL("../versions.json", site)).catch(() => null);
  if (!answer?.ok) return;
  const select = place.querySelector("select");
  for (const version of await answer.json()) {
    const isThis = site.pathname.endsWith(`/${version}/`);
    select.add(new Option(version, version, isThis, isThis));
  }
  select.addEventListener("change", async () => {
    const other = new URL(`../${select.value}/`, site);
    const page = new URL(location.pathname.slice(site.pathname.length), other);
    const hasPage = (await fetch(page, { method: "HEAD" }).catch(() => null))?.ok;
    location.assign(hasPage ? page : other);
  });
  place.hidden = false;
}
addEventListener("load", offerVersions);
