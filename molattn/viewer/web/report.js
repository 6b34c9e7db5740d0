// The report of a run, or of two, after elements.js. molattn/viewer/report/payload.py describes `data`; nothing is fetched. Names
// become text nodes and attribute values only, never markup.

// ---- numbers and markers --------------------------------------------------------------------------------------------

const count = (n) => n.toLocaleString("en-US");
const formatNumber = (v) => {
  if (v === null || v === undefined) return "";
  if (Number.isInteger(v) && Math.abs(v) < 1e6) return minus(String(v));
  return minus(Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3 ? v.toPrecision(3) : String(Number(v.toPrecision(4))));
};
// A function that formats the numbers of a column with one number of decimals, at which the largest has four digits.
const columnFormat = (values) => {
  const most = Math.max(1e-9, ...values.filter((v) => v !== null).map(Math.abs));
  if (most >= 1e5 || most < 1e-3) return formatNumber;
  const digits = Math.min(6, Math.max(0, 3 - Math.max(0, Math.floor(Math.log10(most)))));
  return (v) => (v === null || v === undefined ? "" : minus(v.toFixed(digits)));
};
// About that many round numbers from low to high.
const ticks = (low, high, about = 8) => {
  const rough = (high - low) / about,
    power = 10 ** Math.floor(Math.log10(rough)),
    step = [1, 2, 5, 10].find((f) => f * power >= rough) * power;
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step / 1e6; v += step) found.push(Number(v.toPrecision(12)));
  return found;
};

// In the order in which they are drawn: test molecules are on top.
const MARKERS = {
  train: "M-3.2-3.2H3.2V3.2H-3.2Z",
  cal: "M0-4.6L4.6 0L0 4.6L-4.6 0Z",
  val: "M0-4.4L4.2 3.2H-4.2Z",
  test: "M-3.6 0A3.6 3.6 0 1 1 3.6 0A3.6 3.6 0 1 1-3.6 0Z",
};
const REACH = 24; // pixels: a point that is farther from the pointer is not selected

// ---- the report -----------------------------------------------------------------------------------------------------

// Show the data of a report in `root`. Molecules are indices from 0.
export function show(root, data) {
  const n = data.smiles.length,
    all = [...Array(n).keys()],
    pair = data.runs.length > 1;
  const s = { target: 0, text: "", split: "", has: "", lacks: "", domain: "", sort: "error", down: true, page: 0, size: 25 };
  let shown = [],
    target = data.targets[0],
    opened = null;
  const nameOf = (i) => data.names[i] || data.smiles[i];
  const trueText = (i) => {
    const y = target.true[i];
    if (y === null) return target.bounds[i] || "";
    return target.kind === "regression" ? formatNumber(y) : target.classes[y];
  };
  const predictedText = (v) => (v !== null && target.kind === "multiclass" ? target.classes[v] : formatNumber(v));
  const errorOf = (i) => target.error[i];
  const unit = () => (target.unit ? ` (${target.unit})` : "");
  // Of transformed values the unit, which is not that of the table.
  const scale = () => (target.original ? `, ${target.unit}` : "");

  // -- structures

  // The structure of molecule i. `discs` are [x, y, fraction from -1 to 1] of the atoms.
  function structure(i, { discs = null } = {}) {
    const d = data.drawings[i],
      pad = discs ? 16 : 8,
      [width, height] = d.size;
    const svg = h("svg:svg", {
      viewBox: [-pad, -pad, width + 2 * pad, height + 2 * pad].join(" "),
      class: "structure",
      "aria-hidden": "true",
      focusable: "false",
    });
    for (const [x, y, fraction] of discs || []) {
      const kind = fraction < 0 ? "low" : "high";
      svg.append(h("svg:circle", { cx: x, cy: y, r: 14, class: kind, "fill-opacity": Math.abs(fraction).toFixed(3) }));
    }
    if (d.lines) svg.append(h("svg:path", { d: d.lines, class: "line" }));
    if (d.dashed) svg.append(h("svg:path", { d: d.dashed, class: "line", "stroke-dasharray": "2 2" }));
    if (d.solid) svg.append(h("svg:path", { d: d.solid, class: "solid" }));
    for (const [glyph, x, y, element] of d.letters || []) {
      const kind = element && !discs ? `solid ${element}` : "solid"; // on discs, only values have colors
      svg.append(h("svg:path", { d: data.glyphs[glyph], transform: `translate(${x} ${y})`, class: kind }));
    }
    return svg;
  }
  const thumbnail = (i) =>
    h(
      "button",
      { type: "button", class: "thumb", "aria-label": `Open ${truncate(nameOf(i), 80)}`, onclick: () => open(i) },
      structure(i),
    );

  // -- which molecules are shown

  const KEYS = {
    name: nameOf,
    split: (i) => data.splits[data.split[i]],
    true: (i) => target.true[i],
    predicted: (i) => target.predicted[i],
    second: (i) => target.second.predicted[i],
    error: (i) => (errorOf(i) === null ? null : Math.abs(errorOf(i))),
    error2: (i) => (target.second.error[i] === null ? null : Math.abs(target.second.error[i])),
    change: (i) => worse(i),
    width: (i) => (target.low?.[i] == null ? null : target.high[i] - target.low[i]),
    similarity: (i) => data.similarity[i],
    domain: (i) => data.domain[i],
  };
  const worse = (i) => (KEYS.error(i) === null || KEYS.error2(i) === null ? null : KEYS.error2(i) - KEYS.error(i));
  function matches(i) {
    if (s.split && data.splits[data.split[i]] !== s.split) return false;
    if (s.has && !data.has[i].includes(Number(s.has))) return false;
    if (s.lacks && data.has[i].includes(Number(s.lacks))) return false;
    if (s.domain && (data.domain[i] !== "no") !== (s.domain === "out")) return false;
    if (!s.text) return true;
    return data.smiles[i].includes(s.text) || (data.names[i] || "").toLowerCase().includes(s.text.toLowerCase());
  }
  function select() {
    const key = KEYS[s.sort],
      sign = s.down ? -1 : 1;
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
    // Molecules without a value are last in both directions.
    shown = all.filter(matches).sort((a, b) => {
      const [x, y] = [key(a), key(b)],
        [none, other] = [x === null || x === "", y === null || y === ""];
      return none || other ? none - other || a - b : sign * compare(x, y) || a - b;
    });
    s.page = 0;
  }

  // -- the plot

  // The size of the plot in pixels, and of the box inside its axes. A unit is a pixel, so that text is as large as on the page.
  let W = 560,
    H = 460,
    BOX;
  const plot = h("svg:svg", {
    class: "plot",
    tabindex: 0,
    role: "application",
    "aria-roledescription": "scatter plot",
    "aria-describedby": "plot-keys",
    onpointermove: (e) => point(nearest(e)),
    onpointerleave: () => point(null),
    onclick: (e) => ((i) => i !== null && open(i))(nearest(e)),
    onblur: () => point(null),
    onkeydown: press,
  });
  const tip = h("div", { class: "tip", hidden: true }),
    status = h("p", { role: "status", class: "status" });
  let places = [],
    marks = [],
    current = null;

  // The axes: true and predicted values, or true classes and probabilities, or the errors of two runs.
  function axes() {
    const name = `${target.name}${unit()}`;
    if (pair) {
      const [a, b] = data.runs.map((run) => `absolute error of ${truncate(run, 30)}${unit()}`);
      return { x: KEYS.error, y: KEYS.error2, names: [a, b], diagonal: true, zero: true };
    }
    if (target.kind === "regression") {
      const names = [`${name}, true`, `${name}, predicted`];
      return { x: (i) => target.true[i], y: (i) => target.predicted[i], names, diagonal: true };
    }
    const jitter = (i) => ((i * 0.618034) % 1) * 0.7 - 0.35; // the same for a molecule each time
    const p = target.kind === "binary" ? target.predicted : target.probability;
    const of = target.kind === "binary" ? target.classes[1] : "the true class";
    return {
      x: (i) => (target.true[i] === null ? null : target.true[i] + jitter(i)),
      y: (i) => p[i],
      names: [`${target.name}, true class`, `probability of ${of}`],
      classes: target.classes,
    };
  }

  function drawPlot() {
    W = Math.min(Math.max(plot.clientWidth, 280), 640);
    H = Math.round(0.82 * W);
    plot.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const { x, y, names, diagonal, zero, classes } = axes();
    const known = all.filter((i) => x(i) !== null && y(i) !== null);
    const range = (values) => {
      let low = zero ? 0 : Infinity,
        high = -Infinity;
      for (const v of values) [low, high] = [Math.min(low, v), Math.max(high, v)];
      if (!(low < high)) [low, high] = Number.isFinite(low) ? [low - 0.5, low + 0.5] : [0, 1];
      const margin = 0.04 * (high - low);
      return [zero ? 0 : low - margin, high + margin];
    };
    const both = diagonal ? range([...known.map(x), ...known.map(y)]) : null;
    const [xs, ys] = classes ? [[-0.5, classes.length - 0.5], [-0.02, 1.02]] : [both, both];
    // The title of the y axis, 20 wide, is left of the numbers.
    const longest = longestOf(ticks(...ys).map(formatNumber)).length;
    BOX = { left: Math.max(58, 32 + 7 * longest), top: 10, right: W - 12, bottom: H - 46 };
    const px = (v) => BOX.left + ((v - xs[0]) / (xs[1] - xs[0])) * (BOX.right - BOX.left);
    const py = (v) => BOX.bottom - ((v - ys[0]) / (ys[1] - ys[0])) * (BOX.bottom - BOX.top);
    const word = (at, text, more = {}) => h("svg:text", { x: at[0], y: at[1], ...more }, text);
    const fits = Math.floor(W / 7.2);
    plot.replaceChildren(
      h("svg:path", { class: "axis", d: `M${BOX.left} ${BOX.top}V${BOX.bottom}H${BOX.right}` }),
      ...(classes ? classes.map((name, k) => [k, truncate(name, 18)]) : ticks(...xs).map((v) => [v, formatNumber(v)])).map(
        ([v, text]) => word([px(v), BOX.bottom + 16], text, { "text-anchor": "middle" }),
      ),
      ...ticks(...ys).map((v) => word([BOX.left - 6, py(v) + 4], formatNumber(v), { "text-anchor": "end" })),
      ...ticks(...ys).map((v) => h("svg:path", { class: "grid", d: `M${BOX.left} ${py(v)}H${BOX.right}` })),
      word([(BOX.left + BOX.right) / 2, H - 8], truncate(names[0], fits), { "text-anchor": "middle" }),
      word([0, 0], truncate(names[1], Math.floor(0.8 * fits)), {
        "text-anchor": "middle",
        transform: `translate(14 ${(BOX.top + BOX.bottom) / 2}) rotate(-90)`,
      }),
    );
    if (diagonal) plot.append(h("svg:path", { class: "diagonal", d: `M${px(xs[0])} ${py(ys[0])}L${px(xs[1])} ${py(ys[1])}` }));
    places = [];
    marks = [];
    const order = known.sort((a, b) => layerOf(data.split[a]) - layerOf(data.split[b]) || a - b);
    for (const i of order) {
      places[i] = [px(x(i)), py(y(i))];
      const transform = `translate(${places[i].map((v) => v.toFixed(1)).join(" ")})`;
      marks[i] = h("svg:path", { ...markOf(data.split[i]), transform });
      plot.append(marks[i]);
    }
    plot.setAttribute("aria-label", `${names[1]} against ${names[0]}, ${count(known.length)} molecules`);
    learned.hidden = !target.original;
    setText(learned, target.original ? `The model learned ${target.unit}: values and errors are in it. Save CSV saves those of the table.` : "");
    legend.replaceChildren(
      ...data.splits.map((split, k) =>
        h(
          "li",
          {},
          h(
            "svg:svg",
            { viewBox: "-6 -6 12 12", width: 14, height: 14, "aria-hidden": "true" },
            h("svg:path", markOf(k)),
          ),
          `${split} (${count(known.filter((i) => data.split[i] === k).length)})`,
        ),
      ),
    );
  }
  // Of two runs with different splits, "train / test": the color is that of the first, the shape that of the second.
  const splitsOf = (k) => data.splits[k].split(" / ");
  const layerOf = (k) => Object.keys(MARKERS).indexOf(splitsOf(k)[0]);
  const markOf = (k) => {
    const [first, second] = splitsOf(k);
    return { d: MARKERS[second ?? first], class: `mark in-${first}${second ? " differs" : ""}` };
  };
  const legend = h("ul", { class: "legend" }),
    learned = h("p"); // which transform the values have

  function nearest(event) {
    const matrix = plot.getScreenCTM().inverse(),
      at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix),
      reach = REACH * Math.abs(matrix.a);
    let best = null,
      least = reach;
    for (const i of shown) {
      if (!places[i]) continue;
      const far = Math.hypot(places[i][0] - at.x, places[i][1] - at.y);
      if (far < least) [best, least] = [i, far];
    }
    return best;
  }
  function point(i) {
    if (i === current) return;
    if (current !== null) marks[current]?.classList.remove("current");
    current = i;
    tip.hidden = i === null;
    if (i === null) return;
    marks[i].classList.add("current");
    marks[i].parentNode.append(marks[i]);
    tip.replaceChildren(structure(i), h("p", {}, truncate(nameOf(i), 60)), h("p", {}, sentence(i)));
    const [x, y] = places[i],
      scale = plot.clientWidth / W;
    tip.style.left = `${Math.min(Math.max(x * scale - 90, 0), Math.max(plot.clientWidth - 180, 0))}px`;
    tip.style.top = y > H / 2 ? "" : `${y * scale + 16}px`;
    tip.style.bottom = y > H / 2 ? `${(H - y) * scale + 16}px` : "";
  }
  function sentence(i) {
    const split = data.splits[data.split[i]];
    if (pair) {
      const [a, b] = [KEYS.error(i), KEYS.error2(i)].map(formatNumber);
      return `${split}: true ${trueText(i)}, errors ${a} and ${b}`;
    }
    return `${split}: true ${trueText(i)}, predicted ${predictedText(target.predicted[i])}, error ${formatNumber(errorOf(i))}`;
  }
  function press(e) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowUp: 1, ArrowDown: -1, PageDown: 25, PageUp: -25 }[e.key];
    const axis = e.key === "ArrowUp" || e.key === "ArrowDown" ? 1 : 0;
    const order = shown.filter((i) => places[i]).sort((a, b) => (places[a][axis] - places[b][axis]) * (axis ? -1 : 1) || a - b);
    if (!order.length) return;
    if (e.key === "Enter" || e.key === " ") current !== null && open(current);
    else if (e.key === "Escape") point(null);
    else if (step || e.key === "Home" || e.key === "End") {
      const at = current === null ? (step > 0 ? -1 : order.length) : order.indexOf(current);
      const next = e.key === "Home" ? 0 : e.key === "End" ? order.length - 1 : at + step;
      point(order[Math.min(Math.max(next, 0), order.length - 1)]);
      status.textContent = `${truncate(nameOf(current), 80)}: ${sentence(current)}`;
    } else return;
    e.preventDefault();
  }

  // -- the table

  const body = h("tbody"),
    head = h("thead"),
    found = h("output", { "aria-live": "polite" }),
    pages = h("span");
  function columns() {
    const plain = (key, name, cell) => ({ key, name, cell });
    const numbers = (key, name, values) => {
      const format = columnFormat(values);
      return { key, name, numeric: true, cell: (i) => format(values[i]) };
    };
    const text = (key, name, cell) => ({ key, name, numeric: true, cell });
    const isNumber = target.kind === "regression";
    const list = [
      { name: "structure", cell: (i) => thumbnail(i) },
      plain("name", data.names.length ? "name" : "SMILES", (i) => h("span", { class: "smiles" }, truncate(nameOf(i), 60))),
      plain("split", "split", (i) => data.splits[data.split[i]]),
      isNumber ? numbers("true", `true${scale()}`, target.true) : plain("true", "true", trueText),
    ];
    if (target.bounds.length) list[3] = text("true", `true${scale()}`, trueText);
    const predicted = (key, name, values) =>
      target.kind === "multiclass" ? plain(key, name, (i) => predictedText(values[i])) : numbers(key, name, values);
    const [a, b] = data.runs.map((run) => truncate(run, 20));
    if (pair) {
      return [
        ...list,
        predicted("predicted", a, target.predicted),
        predicted("second", b, target.second.predicted),
        numbers("error", `error of ${a}`, target.error),
        numbers("error2", `error of ${b}`, target.second.error),
        numbers("change", `|${b}| \u2212 |${a}|`, all.map(worse)),
      ];
    }
    list.push(predicted("predicted", isNumber ? `predicted${scale()}` : target.kind === "multiclass" ? "predicted" : `p(${target.classes[1]})`, target.predicted));
    list.push(numbers("error", isNumber ? "error" : "1 \u2212 p(true class)", target.error));
    if (target.low.length) {
      const interval = (i) => (target.low[i] === null ? "" : `${formatNumber(target.low[i])} to ${formatNumber(target.high[i])}`);
      list.push(text("width", `${Math.round(100 * data.level)}% interval`, interval));
    }
    if (target.sets.length) list.push(plain(null, `${Math.round(100 * data.level)}% set`, (i) => target.sets[i]));
    if (target.std.length) list.push({ ...numbers(null, "standard deviation", target.std) });
    list.push(numbers("similarity", "similarity to training", data.similarity));
    if (data.domain.length) list.push(plain("domain", "out of domain", (i) => data.domain[i]));
    return list;
  }
  function drawTable() {
    const list = columns();
    head.replaceChildren(
      h(
        "tr",
        {},
        ...list.map(({ key, name, numeric }) => {
          const order = key === s.sort ? (s.down ? "descending" : "ascending") : null;
          const attributes = { scope: "col", class: numeric && "numeric", "aria-sort": order };
          if (!key) return h("th", attributes, name);
          const arrow = order ? (s.down ? " \u25bc" : " \u25b2") : "";
          return h("th", attributes, h("button", { type: "button", onclick: () => sortBy(key) }, name, h("span", { "aria-hidden": "true" }, arrow)));
        }),
      ),
    );
    const first = s.page * s.size,
      rows = shown.slice(first, first + s.size);
    body.replaceChildren(
      ...rows.map((i) =>
        h("tr", { onclick: (e) => e.target.closest("button") || open(i) }, ...list.map((c) => h("td", { class: c.numeric && "numeric" }, c.cell(i)))),
      ),
    );
    found.textContent = `${count(shown.length)} of ${count(n)} molecules`;
    pages.textContent = rows.length ? `${count(first + 1)} to ${count(first + rows.length)}` : "none";
    previous.disabled = !s.page;
    next.disabled = first + s.size >= shown.length;
  }
  function sortBy(key) {
    const down = s.sort === key ? !s.down : !["name", "split", "domain"].includes(key);
    change({ sort: key, down });
    // The button that was pressed has been replaced.
    head.querySelector("[aria-sort] button")?.focus();
  }
  const changePage = (by) => ((s.page += by), drawTable());
  const previous = h("button", { type: "button", onclick: () => changePage(-1) }, "Previous"),
    next = h("button", { type: "button", onclick: () => changePage(1) }, "Next");
  const choice = (label, key, options) =>
    h(
      "label",
      {},
      label,
      h(
        "select",
        { "aria-label": label, onchange: (e) => change({ [key]: e.target.value }) },
        ...options.map(([value, text]) => h("option", { value, selected: String(s[key]) === String(value) }, text)),
      ),
    );
  const groups = [["", "any"], ...data.groups.map((name, k) => [k, name])];
  const filters = () =>
    h(
      "form",
      { class: "bar", role: "search", onsubmit: (e) => e.preventDefault() },
      h("label", {}, "Find", h("input", { type: "search", placeholder: "name or SMILES", oninput: (e) => change({ text: e.target.value.trim() }) })),
      choice("Split", "split", [["", "all"], ...data.splits.map((split) => [split, split])]),
      choice("Has", "has", groups),
      choice("Has not", "lacks", [["", "none"], ...groups.slice(1)]),
      ...(data.domain.length
        ? [choice("Domain", "domain", [["", "all"], ["in", "in"], ["out", "out of domain"]])]
        : []),
      found,
    );
  const pager = () =>
    h(
      "div",
      { class: "bar pager" },
      previous,
      pages,
      next,
      h(
        "label",
        {},
        "Rows",
        h(
          "select",
          { onchange: (e) => ((s.size = Number(e.target.value)), (s.page = 0), drawTable()) },
          ...[25, 100, 500].map((k) => h("option", {}, String(k))),
        ),
      ),
      h("button", { type: "button", onclick: saveTable }, "Save CSV"),
    );

  // The shown molecules as CSV; classes are named, as in predictions.csv.
  const csvValue = (v) => (v !== null && target.kind === "multiclass" ? target.classes[v] : v);
  function saveTable() {
    const { true: measured, predicted } = target.original ?? target;
    const keys = [["row", (i) => data.rows[i]], ["smiles", (i) => data.smiles[i]]];
    if (data.names.length) keys.push(["name", (i) => data.names[i]]);
    keys.push(["split", (i) => data.splits[data.split[i]]], ["true", (i) => csvValue(measured[i])], ["predicted", (i) => csvValue(predicted[i])]);
    if (pair) keys.push(["predicted_second", (i) => csvValue((target.second.original ?? target.second.predicted)[i])]);
    const rows = [keys.map(([name]) => name), ...shown.map((i) => keys.map(([, value]) => String(value(i) ?? "")))];
    saveFile(csv(rows), "molecules.csv");
  }

  // -- one molecule

  const panel = h("dialog", { class: "panel", "aria-labelledby": "panel-title", onclose: closed });
  panel.addEventListener("click", (e) => e.target === panel && panel.close());
  function open(i) {
    opened = i;
    const order = shown.includes(i) ? shown : all,
      at = order.indexOf(i);
    const go = (by) => h("button", { type: "button", disabled: !(at + by in order), onclick: () => open(order[at + by]), "data-step": by }, by < 0 ? "Previous" : "Next");
    const step = panel.contains(document.activeElement) ? document.activeElement.dataset.step : undefined;
    panel.replaceChildren(
      h("header", {}, h("h2", { id: "panel-title", tabindex: -1 }, truncate(nameOf(i), 120)), h("button", { type: "button", onclick: () => panel.close() }, "Close")),
      picture(i),
      h("dl", {}, ...facts(i).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
      h("div", { class: "bar" }, go(-1), `${count(at + 1)} of ${count(order.length)}`, go(1)),
    );
    if (!panel.open) panel.showModal();
    const focus = panel.querySelector(`[data-step="${step}"]:not(:disabled)`) || panel.querySelector("h2");
    focus.focus();
    history.replaceState(null, "", `#molecule=${data.rows[i]}`);
  }
  function picture(i) {
    const atoms = target.atoms?.[i],
      at = data.drawings[i].atoms;
    const figure = h("figure", {});
    if (!atoms || !at || at.length !== atoms.values.length) {
      figure.append(structure(i));
      return figure;
    }
    const most = Math.max(...atoms.values.map(Math.abs)) || 1;
    figure.append(structure(i, { discs: at.map(([x, y], k) => [x, y, atoms.values[k] / most]) }));
    const top = atoms.values.map((v, k) => [v, atoms.labels[k]]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
    const words = top.slice(0, 4).map(([v, label]) => `${label} ${v > 0 ? "+" : ""}${formatNumber(v)}`);
    const how = atoms.signed ? `orange raises the ${atoms.quantity}, blue lowers it` : "the larger the value, the larger the weight of the atom";
    figure.append(h("figcaption", {}, `What atoms contribute (${atoms.method}): ${how}. Most: ${words.join(", ")}. Faithfulness: ${atoms.faithfulness}`));
    return figure;
  }
  function facts(i) {
    const list = [["SMILES", h("code", {}, data.smiles[i])], ["row", `${data.rows[i]}, ${data.splits[data.split[i]]}`]];
    // The value of the table, where that is not the one that is shown.
    const before = (name) => (target.original && target.original[name][i] !== null ? `: ${formatNumber(target.original[name][i])} ${target.original.unit}` : "");
    list.push(["true", `${trueText(i) || "none"}${target.true[i] === null ? "" : unit()}${before("true")}`]);
    const known = (v) => (v === null || v === undefined ? "none" : formatNumber(v));
    if (pair) {
      list.push([data.runs[0], `${predictedText(target.predicted[i])}, error ${known(errorOf(i))}`]);
      list.push([data.runs[1], `${predictedText(target.second.predicted[i])}, error ${known(target.second.error[i])}`]);
    } else {
      list.push(["predicted", `${predictedText(target.predicted[i])}${unit()}${before("predicted")}`], ["error", known(errorOf(i))]);
      if (target.low.length && target.low[i] !== null) list.push([`${Math.round(100 * data.level)}% interval`, `${formatNumber(target.low[i])} to ${formatNumber(target.high[i])}`]);
      if (target.sets.length) list.push([`${Math.round(100 * data.level)}% set`, target.sets[i] || "none"]);
      if (target.std.length) list.push(["standard deviation", known(target.std[i])]);
      if (data.similarity[i] !== null) list.push(["similarity to training", known(data.similarity[i])]);
      if (data.domain.length) list.push(["out of domain", data.domain[i]]);
      list.push(["its attention", h("code", {}, `molattn view ${data.folder} --smiles '${data.smiles[i]}' -o molecule.html`)]);
    }
    list.push(["substructures", data.has[i].map((k) => data.groups[k]).join(", ") || "none of those listed"]);
    return list;
  }
  function closed() {
    const i = opened;
    opened = null;
    history.replaceState(null, "", location.pathname + location.search);
    if (i !== null) point(null);
  }
  // Open the molecule in the fragment of the URL.
  function openFromUrl() {
    const [, row] = /^#molecule=(\d+)$/.exec(location.hash) || [];
    const i = row === undefined ? -1 : data.rows.indexOf(Number(row));
    if (i >= 0 && i !== opened) open(i);
  }

  // -- sections, which consist of the blocks of molattn/viewer/report/blocks.py

  const BLOCKS = {
    text: ({ text, command }) => h("p", {}, text, ...(command ? [" ", h("code", {}, command)] : [])),
    missing: ({ text, command }) => h("p", { class: "missing" }, text, ...(command ? [" Measure it: ", h("code", {}, command)] : [])),
    table: sectionTable,
    cards: ({ molecules }) =>
      h("ul", { class: "cards" }, ...molecules.map((i) => h("li", {}, thumbnail(i), h("p", { class: "smiles" }, truncate(nameOf(i), 40)), h("p", {}, sentence(i))))),
    curve,
    folded: ({ title, blocks }) => h("details", {}, h("summary", {}, title), ...blocks.map(block)),
  };
  const block = (b) => BLOCKS[b.kind](b);
  function sectionTable({ caption, columns, rows }) {
    const numeric = columns.map((_, k) => rows.some((row) => typeof row[k] === "number"));
    const cell = (value) => (value === null ? "" : typeof value === "object" ? thumbnail(value.molecule) : typeof value === "number" ? formatNumber(value) : value);
    const region = scroll(
      `${caption || columns.join(", ")}, table`,
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, ...columns.map((name, k) => (name ? h("th", { scope: "col", class: numeric[k] && "numeric" }, name) : h("td"))))),
        h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((value, k) => h("td", { class: numeric[k] && "numeric" }, cell(value)))))),
      ),
    );
    return caption ? h("div", {}, h("h3", {}, caption), region) : region;
  }
  const scroll = (label, ...children) => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, ...children);
  function curve({ x, y, lines, mark }) {
    const points = lines.flatMap((line) => line.points).filter(([, v]) => v !== null);
    const span = (k) => [Math.min(...points.map((p) => p[k])), Math.max(...points.map((p) => p[k]))];
    if (!points.length) return h("p", { class: "missing" }, "No epoch has a finite loss.");
    const logarithmic = span(1)[0] > 0 && span(1)[1] > 8 * span(1)[0],
      f = logarithmic ? Math.log10 : Number;
    const [[x0, x1], [y0, y1]] = [span(0), span(1).map(f)],
      w = 560,
      height = 260;
    const px = (v) => 62 + ((v - x0) / (x1 - x0 || 1)) * (w - 80),
      py = (v) => height - 44 - ((f(v) - y0) / (y1 - y0 || 1)) * (height - 60);
    const word = (at, text, more = {}) => h("svg:text", { x: at[0], y: at[1], ...more }, text);
    const marks = logarithmic ? [span(1)[0], Math.sqrt(span(1)[0] * span(1)[1]), span(1)[1]] : ticks(...span(1), 4);
    const figure = h(
      "svg:svg",
      { viewBox: `0 0 ${w} ${height}`, class: "plot curve", role: "img", "aria-label": `${y} by ${x}: ${lines.map((l) => l.name).join(", ")}` },
      h("svg:path", { class: "axis", d: `M62 8V${height - 44}H${w - 12}` }),
      ...ticks(x0, x1, 8).filter(Number.isInteger).map((v) => word([px(v), height - 28], String(v), { "text-anchor": "middle" })),
      ...marks.map((v) => word([56, py(v) + 4], formatNumber(Number(v.toPrecision(2))), { "text-anchor": "end" })),
      word([w / 2, height - 8], x, { "text-anchor": "middle" }),
      ...lines.map((line, k) => h("svg:path", { class: `line-${k}`, d: line.points.filter(([, v]) => v !== null).map(([a, b], j) => `${j ? "L" : "M"}${px(a).toFixed(1)} ${py(b).toFixed(1)}`).join("") })),
      ...(mark ? [h("svg:path", { class: "diagonal", d: `M${px(mark[0])} 8V${height - 44}` }), word([px(mark[0]) + (px(mark[0]) > w / 2 ? -6 : 6), 18], mark[1], { "text-anchor": px(mark[0]) > w / 2 ? "end" : "start" })] : []),
    );
    const names = lines.map((line, k) =>
      h("li", {}, h("svg:svg", { viewBox: "0 0 20 10", width: 20, height: 10, "aria-hidden": "true" }, h("svg:path", { class: `line-${k}`, d: "M0 5H20" })), line.name),
    );
    return h("figure", { class: "plot curve" }, figure, h("figcaption", {}, `${y}${logarithmic ? ", logarithmic" : ""}`, h("ul", { class: "legend" }, ...names)));
  }

  // -- the page

  const textParagraph = (text) => h("p", {}, text);
  const sectionsElement = h("div"),
    metricsElement = h("div"),
    contents = h("ul");
  function drawSections() {
    const mine = data.sections.filter((one) => one.target === null || one.target === s.target);
    const make = (one) => h("section", { id: one.id, "aria-labelledby": `${one.id}-title` }, h("h2", { id: `${one.id}-title` }, one.title), ...one.blocks.map(block));
    metricsElement.replaceChildren(...mine.filter((one) => one.id === "metrics").map(make));
    sectionsElement.replaceChildren(...mine.filter((one) => one.id !== "metrics").map(make));
    const links = [["metrics", "Metrics"], ["plot", "Plot"], ["molecules", "Molecules"], ...mine.filter((one) => one.id !== "metrics").map((one) => [one.id, one.title])];
    contents.replaceChildren(...links.map(([id, title]) => h("li", {}, h("a", { href: `#${id}` }, title))));
  }
  function change(values) {
    const before = s.target;
    Object.assign(s, values);
    s.target = Number(s.target);
    target = data.targets[s.target];
    if (s.target !== before) {
      drawSections();
      drawPlot();
    }
    point(null);
    select();
    markShown();
    drawTable();
  }
  function markShown() {
    const inside = new Set(shown);
    marks.forEach((mark, i) => mark?.classList.toggle("out", !inside.has(i)));
  }
  const missing = Object.values(data.missing).map(([text, command]) => block({ kind: "missing", text, command }));
  const title = `Report of ${data.runs.join(" and ")}`;
  root.append(
    h(
      "header",
      {},
      h("h1", {}, title),
      ...(data.targets.length > 1 ? [choice("Target", "target", data.targets.map((one, k) => [k, one.name]))] : []),
      ...(data.note ? [textParagraph(data.note)] : []),
    ),
    h("nav", { "aria-label": "Sections" }, contents),
    h(
      "div",
      { class: "top" },
      metricsElement,
      h(
        "section",
        { id: "plot", "aria-labelledby": "plot-title" },
        h("h2", { id: "plot-title" }, pair ? "Errors of both runs" : "Predicted and true"),
        learned,
        h("p", { id: "plot-keys", class: "hint" }, "Each point is a molecule: point at it to see it, click to open it. With the keyboard: arrows, then Enter."),
        h("figure", { class: "plot" }, plot, tip, h("figcaption", {}, legend)),
        status,
      ),
    ),
    h(
      "section",
      { id: "molecules", "aria-labelledby": "molecules-title" },
      h("h2", { id: "molecules-title" }, "Molecules"),
      filters(),
      scroll("Table of molecules", h("table", { class: "molecules" }, head, body)),
      pager(),
      ...missing,
    ),
    sectionsElement,
    panel,
  );
  drawSections();
  drawPlot();
  change({});
  openFromUrl();
  window.addEventListener("hashchange", openFromUrl);
  new ResizeObserver(() => {
    if (Math.abs(plot.clientWidth - W) < 1 || plot.clientWidth > 640) return;
    point(null);
    drawPlot();
    markShown();
  }).observe(plot);
}

export function start(document) {
  for (const data of document.querySelectorAll("script.molattn-data")) {
    show(data.parentElement.querySelector(".molattn"), JSON.parse(data.textContent));
  }
}
