// Elements, text and files, for the scripts of all pages. Text becomes text nodes and attribute values only, never markup.

const FOCUSABLE = ["button", "input", "select", "summary"];

// Create an element of HTML, or of SVG if its name begins with "svg:"; attributes that begin with "on" are listeners.
function h(name, attributes = {}, ...children) {
  const svg = name.startsWith("svg:");
  const element = svg
    ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value != null && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  // Otherwise keys would be shortcuts of JupyterLab: "x" would cut the cell. It checks only the focused element.
  if (FOCUSABLE.includes(name) || "tabindex" in attributes) element.setAttribute("data-lm-suppress-shortcuts", "true");
  element.append(...children);
  return element;
}

// Set only what differs: otherwise the browser would compute styles again.
const setAttributes = (element, attributes) =>
  Object.entries(attributes).forEach(([k, v]) => element.getAttribute(k) === String(v) || element.setAttribute(k, v));
const setText = (element, text) => element.textContent === text || (element.textContent = text);

const longestOf = (texts) => texts.reduce((a, b) => (b.length > a.length ? b : a), "");
// A line for one of several sentences, as high as the longest, so that the page below does not move: [line, element].
function statusLine(sentences) {
  const line = h("p", { role: "status" });
  return [line, h("div", { class: "steady", "data-longest": longestOf(sentences) }, line)];
}

// A group of radio buttons with a legend; `options` are [value, text], and `choose` is called with a value.
function radioGroup(legend, name, options, chosen, choose) {
  const radio = ([value, text]) =>
    h(
      "label",
      {},
      h("input", { type: "radio", name, checked: chosen === value, onchange: () => choose(value) }),
      h("span", {}, text),
    );
  return h("fieldset", {}, h("legend", {}, legend), ...options.map(radio));
}

// ---- text -----------------------------------------------------------------------------------------------------------

const minus = (text) => text.replace(/^-/, "\u2212");
const truncate = (text, length) => (text.length > length ? text.slice(0, length - 1) + "\u2026" : text);

// ---- files ----------------------------------------------------------------------------------------------------------

function saveFile(blob, download) {
  const href = URL.createObjectURL(blob);
  h("a", { href, download }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
}

// A spreadsheet would evaluate a text that begins like this as a formula.
const escapeFormula = (text) => (/^[=+@-]../.test(text) && isNaN(text) ? `'${text}` : String(text));
const quoted = (text) => (/[",\n\r]/.test(text) ? `"${escapeFormula(text).replaceAll('"', '""')}"` : escapeFormula(text));
const csv = (rows) => new Blob([rows.map((row) => row.map(quoted).join(",") + "\r\n").join("")], { type: "text/csv" });
