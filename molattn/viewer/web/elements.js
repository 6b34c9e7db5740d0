// Elements of the pages, in front of the script of each. Text becomes text nodes and attribute values only, never markup.

function h(name, attributes = {}, ...children) {
  const svg = name.startsWith("svg:");
  const element = svg
    ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value != null && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children);
  return element;
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

