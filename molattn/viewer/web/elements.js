// Elements of the pages, in front of the script of each. Text becomes text nodes and attribute values only, never markup.

const FOCUSABLE = ["button", "input", "select", "summary"];

function h(name, attributes = {}, ...children) {
  const svg = name.startsWith("svg:");
  const element = svg
    ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value != null && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  // Else JupyterLab takes the keys for its own: "x" would cut the cell. It looks at the focused element alone.
  if (FOCUSABLE.includes(name) || "tabindex" in attributes) element.setAttribute("data-lm-suppress-shortcuts", "true");
  element.append(...children);
  return element;
}

// Setting what is already there would cost the browser a new style.
const setAttributes = (element, attributes) =>
  Object.entries(attributes).forEach(([k, v]) => element.getAttribute(k) === String(v) || element.setAttribute(k, v));
const setText = (element, text) => element.textContent === text || (element.textContent = text);

const longestOf = (texts) => texts.reduce((a, b) => (b.length > a.length ? b : a), "");
// A line for sentences, with the room of the longest: else what lies below would move under the pointer.
function statusLine(sentences) {
  const line = h("p", { role: "status" });
  return [line, h("div", { class: "steady", "data-longest": longestOf(sentences) }, line)];
}

function radioGroup(words, name, options, chosen, choose) {
  const radio = ([value, text]) =>
    h(
      "label",
      {},
      h("input", { type: "radio", name, checked: chosen === value, onchange: () => choose(value) }),
      h("span", {}, text),
    );
  return h("fieldset", {}, h("legend", {}, words), ...options.map(radio));
}
