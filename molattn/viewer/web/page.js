// The interactive page, after drawing.js. payload.py describes `data`; nothing is fetched. Names become text nodes and attribute
// values only, never markup.

// ---- data: a weight is a byte times the scale of its row ------------------------------------------------------------

function decode({ layers, heads, weights, scales }, n) {
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const codes = bytes(weights),
    parts = bytes(scales),
    steps = new Float32Array(Uint32Array.from({ length: layers * heads * n }, (_, k) => (parts[3 * k] << 8) | (parts[3 * k + 1] << 16) | (parts[3 * k + 2] << 24)).buffer);
  // The largest weight, with and without weights of a node to itself.
  const top = { true: 0, false: 0 };
  let cachedKey, result;
  for (let k = 0; k < codes.length; k++) {
    const [row, j] = divmod(k, n),
      w = codes[k] * steps[row];
    top.true = Math.max(top.true, w);
    if (row % n !== j) top.false = Math.max(top.false, w);
  }
  function matrix(layer, head) {
    const key = `${layer} ${head}`;
    if (key === cachedKey) return result;
    cachedKey = key;
    result = new Float64Array(n * n);
    const single = typeof head === "number";
    for (let a = single ? head : 0; a < (single ? head + 1 : heads); a++) {
      const row = (layer * heads + a) * n;
      for (let k = 0; k < n * n; k++) {
        const w = codes[row * n + k] * steps[row + ((k / n) | 0)];
        result[k] = head === "max" ? Math.max(result[k], w) : result[k] + (single ? w : w / heads);
      }
    }
    return result;
  }
  return { layers, heads, top, matrix };
}

// Format numbers with one number of decimals, at which the largest has three significant digits (two if below 1).
function formatValues(values, plus) {
  const power = Math.floor(Math.log10(Math.max(...values.map(Math.abs)) || 1)),
    decimals = clamp(power < 0 ? 1 - power : 2 - power, 0, 9);
  return values.map((v) => {
    const text = v.toFixed(decimals);
    return Number(text) === 0 ? (0).toFixed(decimals) : plus && v > 0 ? `+${text}` : minus(text);
  });
}

// ---- downloads ------------------------------------------------------------------------------------------------------

// Render an SVG document as PNG, at twice its size.
async function png({ text, width, height }) {
  const image = new Image(),
    canvas = h("canvas", { width: 2 * width, height: 2 * height });
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  await image.decode();
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done));
}

// ---- the page -------------------------------------------------------------------------------------------------------

// Show the data in `root`. The options are whether this is the compared molecule of another page (`nested`), and initial values
// of the state; `changed` is called with the selected molecule, node, layer and head when one of them changes.
export function show(root, data, { nested = false, ...start } = {}, changed = () => {}) {
  const s = {
    molecule: 0,
    tab: 0,
    method: 0,
    target: undefined,
    layer: null,
    head: "mean",
    incoming: false,
    scale: "row",
    draw: "discs",
    threshold: 0,
    self: true,
    pinned: null,
    hover: null,
    group: null,
    ...start,
  };
  // The selected molecule, its number of nodes and its decoded weights; the functions of the open tab; the selection that `changed`
  // was last called with; the element of the compared molecule; the index of the group under the pointer.
  let m, n, map, parts, reported, comparison, pointed;
  root.classList.add("molattn");
  // Restore what attributions by one method share in the data, and the outlines of letters.
  const absent = { prediction: null, probability: null, constant: null, other_terms: [] };
  const letter = ([k, x, y]) =>
    data.glyphs[k].replace(/(-?[\d.]+) (-?[\d.]+)/g, (_, a, b) => `${(x + +a).toFixed(1)} ${(y + +b).toFixed(1)}`);
  for (const molecule of data.molecules) {
    molecule.attributions = molecule.attributions.map((a) => ({ ...absent, ...data.methods[a.of], ...a }));
    const d = molecule.drawing;
    d.solid = (d.solid ?? "") + (d.letters ?? []).map(letter).join("");
    delete d.letters; // two views may share the data
  }
  root.addEventListener("keydown", (e) => e.key === "Escape" && pin(null));
  const resized = new ResizeObserver(() => parts?.heat?.resize());

  // By touch there is no hovering: while an atom is pinned, the first tap on another shows the weight between the two, the second
  // pins the other.
  let tapped = null;
  function pin(i, byTouch = false) {
    const pair = byTouch && i !== null && s.pinned !== null && i !== s.pinned && i !== tapped;
    tapped = pair ? i : null;
    if (pair) s.hover = { subject: s.pinned, partner: i };
    else {
      s.pinned = i === s.pinned ? null : i;
      s.hover = null;
      if (i === null) s.group = null;
    }
    update();
  }
  // While an atom is pinned, hovering over another shows the weight between the two.
  function hover(i) {
    const next =
      i === null
        ? null
        : s.pinned === null || i === s.pinned
          ? { subject: i, partner: null }
          : { subject: s.pinned, partner: i };
    if (JSON.stringify(next) === JSON.stringify(s.hover)) return;
    s.hover = next;
    update();
  }
  const handlers = { hover, pin };
  const change = (values) => update(Object.assign(s, values));

  // -- controls

  const radios = (words, name, options) =>
    radioGroup(words, `${name} ${id}`, options, s[name], (value) => change({ [name]: value }));
  const id = Math.random().toString(36).slice(2);
  const downloads = () =>
    h(
      "p",
      { class: "save" },
      ...["SVG", "PNG", "CSV"].map((kind) =>
        h("button", { type: "button", onclick: () => download(kind) }, `Save ${kind}`),
      ),
    );

  async function download(kind) {
    const word = (text) => String(text).replace(/[^\w-]+/g, "_").slice(0, 40);
    const file = `${["molattn", m.smiles.replace(/\W+/g, "_"), ...parts.file()].map(word).join("-")}.${kind.toLowerCase()}`;
    if (kind === "CSV") return saveFile(csv(parts.rows()), file);
    const picture = withLightColors(root, () => parts.draw(true), () => parts.drawing.file([m.smiles, ...parts.lines()]));
    saveFile(kind === "SVG" ? new Blob([picture.text], { type: "image/svg+xml" }) : await png(picture), file);
  }

  // -- attention

  const headName = (head) =>
    map.heads === 1 ? "its only head" : typeof head === "number" ? `head ${head}` : `${head} of the heads`;
  const where = () => `layer ${s.layer}${s.layer === map.layers - 1 ? " (the last)" : ""}, ${headName(s.head)}`;
  const isHidden = (i, j) => !s.self && i === j;

  // The weights from or to the subject; without a subject, the mean attention that each node receives.
  function vector(subject) {
    const w = map.matrix(s.layer, s.head),
      result = new Float64Array(n);
    for (let j = 0; j < n; j++) {
      if (subject !== null) result[j] = s.incoming ? w[j * n + subject] : w[subject * n + j];
      else for (let i = 0; i < n; i++) if (!isHidden(i, j)) result[j] += w[i * n + j] / n;
    }
    return result;
  }
  // From a weight to its fraction, null for no color; `top` is the darkest weight. Ratios to uniform attention are signed.
  const ratios = () => s.scale === "uniform";
  function fraction(weight, top) {
    if (weight < s.threshold * (ratios() ? 8 / n : top)) return null;
    return ratios() ? clamp(Math.log2(weight * n) / 3, -1, 1) : top ? Math.min(weight / top, 1) : 0;
  }
  const largest = (values, but) => values.reduce((best, v, i) => (isHidden(i, but) ? best : Math.max(best, v)), 0);

  function heatMap() {
    const canvas = h("canvas", {
      tabindex: 0,
      role: "application",
      "aria-roledescription": "heat map",
      onpointermove: (e) => point(...(inside(e) ? at(e) : [null])),
      onpointerleave: (e) => e.pointerType !== "touch" && point(null),
      onblur: () => point(null),
      onpointerdown: (e) => (touched = e.pointerType === "touch"),
      onclick: (e) => inside(e) && (touched ? point(...at(e)) : pin(at(e)[s.incoming ? 1 : 0])),
      onkeydown: (e) => {
        const [i, j] = cell(),
          step = ARROWS[e.key],
          within = (k) => clamp(k, 0, n - 1);
        if (step) point(...(i === null || j === null ? [i ?? 0, j ?? 0] : [within(i + step[1]), within(j + step[0])]));
        else if (e.key === "Enter" && i !== null) pin(s.incoming ? j : i);
        else return;
        e.preventDefault();
      },
    });
    // Drawn offscreen first: text on a canvas of the page would make the browser compute all styles at once.
    const cells = new OffscreenCanvas(n, n),
      buffer = new OffscreenCanvas(1, 1),
      context = buffer.getContext("2d"),
      cellContext = cells.getContext("2d");
    const long = Math.max(...m.labels.map((l) => truncate(l, 8).length));
    let size = 0,
      edge = 0,
      side = 0,
      touched = false,
      painted;
    const point = (i, j) => {
      s.hover = i === null ? null : s.incoming ? { subject: j, partner: i } : { subject: i, partner: j };
      update();
    };
    const at = (e) => [e.offsetY, e.offsetX].map((x) => Math.floor((x - edge) / side));
    const inside = (e) => at(e).every((k) => k >= 0 && k < n);
    function paint(w) {
      const tops = new Float64Array(n).fill(s.scale === "map" ? map.top[s.self] : 0);
      for (let k = 0; s.scale === "row" && k < n * n; k++) {
        const [i, j] = divmod(k, n),
          line = s.incoming ? j : i;
        if (!isHidden(i, j)) tops[line] = Math.max(tops[line], w[k]);
      }
      const cellFraction = (i, j) => (isHidden(i, j) ? null : fraction(w[i * n + j], tops[s.incoming ? j : i]));
      cellContext.putImageData(
        matrixImage(n, ratios(), (k) => cellFraction(...divmod(k, n))),
        0,
        0,
      );
    }
    // The size is not read while drawing: that would make the browser lay out the page at once.
    function resize() {
      size = canvas.clientWidth;
      draw();
    }
    function draw(anew = false) {
      size ||= canvas.clientWidth;
      const zoom = window.devicePixelRatio || 1,
        w = map.matrix(s.layer, s.head);
      if (!size) return;
      const font = clamp(size / n / 1.3, 8, 12);
      edge = Math.ceil(long * font * 0.62 + 6);
      side = (size - edge - 1) / n;
      if (canvas.width !== Math.round(size * zoom)) {
        canvas.width = canvas.height = buffer.width = buffer.height = Math.round(size * zoom);
      }
      // Hovering changes no colors, so the cells are not painted again: that would be slow for large molecules.
      context.font = `${font}px system-ui, sans-serif`;
      const look = [s.layer, s.head, s.scale, s.threshold, s.self, s.incoming].join();
      if (look !== painted || anew) paint(w);
      painted = look;
      context.setTransform(zoom, 0, 0, zoom, 0, 0);
      context.clearRect(0, 0, size, size);
      context.imageSmoothingEnabled = false;
      context.drawImage(cells, edge, edge, side * n, side * n);
      context.lineWidth = 1;
      context.strokeStyle = css(palette.background);
      for (let k = 1; k < n && side > 9; k++) {
        context.strokeRect(edge, edge + k * side, side * n, 0);
        context.strokeRect(edge + k * side, edge, 0, side * n);
      }
      context.strokeStyle = css(palette.border);
      context.strokeRect(edge - 0.5, edge - 0.5, side * n + 1, side * n + 1);
      const [row, column] = cell();
      const every = Math.ceil((font * 1.1) / side);
      context.textBaseline = "middle";
      for (let k = 0; k < n; k++) {
        for (const [marked, upright] of [
          [row, false],
          [column, true],
        ]) {
          if (k !== marked && (k % every || (marked !== null && Math.abs(k - marked) < every))) continue;
          context.save();
          if (upright) {
            context.translate(edge + (k + 0.5) * side, edge - 4);
            context.rotate(-Math.PI / 2);
          } else context.translate(edge - 4, edge + (k + 0.5) * side);
          context.fillStyle = css(k === marked ? palette.focus : palette.muted);
          context.textAlign = upright ? "left" : "right";
          context.fillText(truncate(m.labels[k], 8), 0, 0);
          context.restore();
        }
      }
      context.lineWidth = 2;
      context.strokeStyle = css(palette.focus);
      const span = (k) => (k === null ? [edge, side * n] : [edge + k * side, side]),
        [x, wide] = span(column),
        [y, high] = span(row);
      if (row !== null || column !== null) context.strokeRect(x, y, wide, high);
      const visible = canvas.getContext("2d");
      visible.clearRect(0, 0, canvas.width, canvas.height);
      visible.drawImage(buffer, 0, 0);
    }
    return { canvas, draw, resize };
  }

  function headGrid() {
    const choices = [...Array(map.heads).keys(), ...(map.heads > 1 ? ["mean", "max"] : [])];
    const buttons = new Map();
    const head = (text) => h("span", { class: "name" }, text);
    const grid = h(
      "div",
      { class: "heads", role: "radiogroup", "aria-label": "Layer and head" },
      ...["layer", ...choices].map((name) => h("span", { class: `name top${["mean", "max"].includes(name) ? " word" : ""}` }, h("span", {}, name))),
    );
    grid.style.gridTemplateColumns = `max-content repeat(${choices.length}, minmax(0, 46px))`;
    for (let layer = 0; layer < map.layers; layer++) {
      grid.append(head(layer));
      choices.forEach((choice, column) => {
        const w = map.matrix(layer, choice),
          top = largest(w, -1) || 1,
          few = Math.min(n, 64);
        const canvas = h("canvas", { width: few, height: few });
        const sample = (k) => divmod(k, few).reduce((i, j) => Math.floor((i * n) / few) * n + Math.floor((j * n) / few));
        canvas.getContext("2d").putImageData(
          matrixImage(few, false, (k) => w[sample(k)] / top),
          0,
          0,
        );
        const move = (e) => {
          const step = ARROWS[e.key];
          if (!step) return;
          e.preventDefault();
          const go = {
            layer: clamp(layer + step[1], 0, map.layers - 1),
            head: choices[clamp(column + step[0], 0, choices.length - 1)],
          };
          change(go);
          buttons.get(`${go.layer} ${go.head}`).focus();
        };
        const button = h(
          "button",
          {
            type: "button",
            role: "radio",
            title: `layer ${layer}, ${headName(choice)}`,
            onclick: () => change({ layer, head: choice }),
            onkeydown: move,
          },
          canvas,
        );
        buttons.set(`${layer} ${choice}`, button);
        grid.append(button);
      });
    }
    const updateSelection = () =>
      buttons.forEach((button, key) => {
        const chosen = key === `${s.layer} ${map.heads > 1 ? s.head : 0}`;
        setAttributes(button, { "aria-checked": chosen, tabindex: chosen ? 0 : -1 });
      });
    return { grid, updateSelection };
  }

  const table = (heads, rows) =>
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ...heads.map((t) => (t ? h("th", { scope: "col" }, t) : h("td"))))),
      h("tbody", {}, ...rows),
    );

  // -- groups of atoms with their sums, and the SMILES

  const sumOf = (values, atoms) => atoms.reduce((sum, i) => sum + values[i], 0);

  // A button for each functional group: pointing at it outlines its atoms, clicking it selects the group.
  function groupList() {
    const found = m.groups ?? [],
      sums = found.map(() => h("b"));
    const at = (k) => {
      pointed = k;
      parts.draw();
    };
    const buttons = found.map(([name], k) =>
      h(
        "button",
        {
          type: "button",
          onpointerenter: (e) => e.pointerType !== "touch" && at(k),
          onpointerleave: () => at(null),
          onfocus: () => at(k),
          onblur: () => at(null),
          onclick: () => change({ group: s.group === k ? null : k }),
        },
        `${name} `,
        sums[k],
      ),
    );
    const list = h("div", { class: "groups", role: "group", "aria-label": "Groups of atoms" }, ...buttons);
    const name = ([group, atoms]) => `${group} (${truncate(atoms.map((i) => m.labels[i]).join(", "), 60)})`;
    const shown = () => found[pointed ?? s.group] ?? null;
    return {
      list: found.length ? list : "",
      shown,
      atoms: () => shown()?.[1],
      name,
      names: found.map(name),
      sums: (text) => found.forEach(([, atoms], k) => setText(sums[k], text(atoms))),
      press: () => buttons.forEach((button, k) => setAttributes(button, { "aria-pressed": k === s.group })),
    };
  }

  // The SMILES, in which the text of each atom is linked to the drawing.
  const ATOM = /\[\d*([A-Za-z][a-z]?)[^\]]*\]|Br|Cl|[BCNOPSFIbcnops]/g;
  function smilesBar() {
    const matches = m.node_type === "atom" ? [...m.smiles.matchAll(ATOM)] : [],
      linked = matches.every((match, i) => (match[1] ?? match[0]).toLowerCase() === m.symbols[i]?.toLowerCase());
    const atoms = linked ? matches.map((match) => h("span", { class: "atom" }, match[0])) : [];
    const pieces = [];
    let end = 0;
    atoms.forEach((atom, i) => {
      pieces.push(m.smiles.slice(end, matches[i].index), atom);
      end = matches[i].index + matches[i][0].length;
    });
    const atomOf = (e) => ((i) => (i < 0 ? null : i))(atoms.indexOf(e.target));
    const text = h(
      "span",
      {
        class: "smiles",
        onpointerover: (e) => e.pointerType !== "touch" && hover(atomOf(e)),
        onpointerleave: () => hover(null),
        onclick: (e) => atomOf(e) !== null && pin(atomOf(e)),
      },
      ...pieces,
      m.smiles.slice(end),
    );
    const paint = (fractions, signed, subject) =>
      atoms.forEach((atom, i) => {
        atom.style.backgroundColor = css(rgb(fractions[i] ?? 0, signed));
        atom.classList.toggle("on", i === subject);
      });
    return { text, paint };
  }
  let bar;

  // The heads whose arcs are drawn. There are colors for eight: of more heads, the eight that include the selected one.
  const headsWithArcs = () => {
    const first = typeof s.head === "number" ? s.head - (s.head % HEAD_COLORS) : 0;
    return Array.from({ length: Math.min(HEAD_COLORS, map.heads - first) }, (_, k) => first + k);
  };
  // The largest weights between two nodes as arcs, [receiver, sender, fraction, color]: of the subject, or of all.
  function arcs(subject) {
    const all = s.draw === "heads",
      heads = all ? headsWithArcs() : [s.head],
      count = subject !== null ? (all ? 3 : 8) : all ? Math.ceil(24 / heads.length) : Math.min(n, 40);
    const top = map.top.false || 1;
    return heads.flatMap((head) => {
      const w = map.matrix(s.layer, head),
        best = [];
      for (let k = 0; k < n * n; k++) {
        const [i, j] = divmod(k, n),
          full = best.length === count;
        if (i === j || (subject !== null && (s.incoming ? j : i) !== subject) || w[k] < s.threshold * top) continue;
        if (full && w[k] <= best[count - 1][2]) continue;
        if (full) best.pop();
        best.push([i, j, w[k]]);
        best.sort((a, b) => b[2] - a[2]);
      }
      return best.map(([i, j, weight]) => [i, j, weight / top, all ? `head-${head % HEAD_COLORS}` : "cell"]);
    });
  }

  function attentionPanel() {
    map = m.map ??= decode(m.attention, n);
    s.layer = clamp(s.layer ?? map.layers - 1, 0, map.layers - 1);
    if (typeof s.head === "number") s.head = clamp(s.head, 0, map.heads - 1);
    const drawing = moleculeDrawing(m, handlers),
      heat = heatMap(),
      heads = headGrid(),
      groups = groupList();
    const keys = h("span", {});
    let keyed;
    function showKeys() {
      const drawn = headsWithArcs();
      if (keyed === drawn[0]) return;
      keyed = drawn[0];
      const some = `Heads ${drawn[0]} to ${drawn.at(-1)} of ${map.heads}: choose another head to see the others. `;
      keys.replaceChildren(
        ...drawn.flatMap((k) => [h("b", {}, h("i", { class: `head-${k % HEAD_COLORS}` }), ` head ${k}`), " "]),
        map.heads > drawn.length ? some : "",
      );
    }
    const legend = h(
      "figcaption",
      { class: "legend" },
      keys,
      "The wider an arc, the larger the weight. Seen from the atom that attends, arcs bend to the left.",
    );
    const received = (three) => `Attention received, mean over all: ${three}. Point at one to see its own.`,
      attending = (group, name, sum) => `The atoms of ${group} attend to ${name}: ${sum} in sum.`;
    const label = longestOf(m.labels);
    const [status, statusBox] = statusLine([
      received(Array(3).fill(`${label} 0.000`).join(", ")),
      ...groups.names.map((group) => attending(group, label, "0.0000")),
    ]);
    const numbers = h("div", { class: "numbers" }),
      title = h("h2");
    const all = h(
      "details",
      { ontoggle: weights },
      h("summary", {}, "All weights as a table"),
      h("div", { tabindex: 0 }),
    );
    const below = h("output"),
      range = h("input", {
        type: "range",
        min: 0,
        max: 1,
        step: 0.01,
        value: s.threshold,
        oninput: () => change({ threshold: Number(range.value) }),
      });
    const own = h("input", { type: "checkbox", checked: s.self, onchange: () => change({ self: own.checked }) });
    let listed;
    function weights() {
      const key = [s.layer, s.head].join(),
        w = map.matrix(s.layer, s.head);
      if (!all.open || key === listed) return;
      listed = key;
      const rows = m.labels.map((label, i) =>
        h("tr", {}, h("th", { scope: "row" }, label), ...m.labels.map((_, j) => h("td", {}, w[i * n + j].toFixed(4)))),
      );
      all.lastChild.replaceChildren(table(["attends \\ to", ...m.labels], rows));
    }
    const view = h(
      "section",
      {},
      h(
        "div",
        { class: "bar" },
        radios("Show", "incoming", [
          [false, `what ${m.node_type === "atom" ? "an atom" : "a token"} attends to`],
          [true, "what attends to it"],
        ]),
        radios("Draw", "draw", [
          ["discs", "discs"],
          ["arcs", "arcs"],
          ...(map.heads > 1 ? [["heads", "arcs by head"]] : []),
        ]),
        radios("Scale", "scale", [
          ["row", `per ${m.node_type}`],
          ["map", "absolute"],
          ["uniform", "\u00d7 uniform"],
        ]),
        h("label", {}, "Hide below ", range, below),
        h("label", {}, own, `include the ${m.node_type} itself`),
      ),
      h("div", { class: "now" }, title, statusBox),
      h(
        "div",
        { class: "views" },
        h(
          "div",
          {},
          h("figure", { class: "drawing main" }, ...drawing.view, legend),
          groups.list,
          numbers,
        ),
        h(
          "div",
          {},
          h("figure", {}, heads.grid, h("figcaption", {}, "A column for each head, each on its own scale.")),
          h(
            "figure",
            {},
            heat.canvas,
            h("figcaption", {}, `Row: the ${m.node_type} that attends; column: the ${m.node_type} attended to.`),
          ),
        ),
      ),
      all,
      h(
        "footer",
        {},
        h("p", {}, h("b", {}, "Faithfulness as an explanation: "), data.faithfulness[m.attention.faithfulness]),
        m.attention.rows_sum_to_one ? "" : h("p", {}, "This model's weights do not sum to 1 along a row."),
        downloads(),
      ),
    );
    resized.observe(heat.canvas);

    function draw(anew) {
      const { subject, partner } = focus(),
        values = vector(subject),
        other = subject === null ? -1 : subject;
      const top = s.scale === "map" ? map.top[s.self] : largest(values, other),
        name = subject === null ? "" : m.labels[subject];
      const fractions = Array.from(values, (v, i) => (isHidden(i, other) ? null : fraction(v, top)));
      drawing.paint(s.draw === "discs" ? fractions : [], ratios());
      drawing.arcs(s.draw === "discs" ? [] : arcs(subject));
      legend.hidden = s.draw === "discs";
      setAttributes(legend, { "data-draw": s.draw });
      showKeys();
      drawing.select(subject, partner, s.pinned, groups.atoms());
      bar.paint(fractions, ratios(), partner ?? subject);
      groups.sums((atoms) => sumOf(values, atoms).toFixed(3));
      groups.press();
      const scope = s.scale === "map" ? ", one scale for all heads" : "";
      if (ratios()) drawing.showScale("1/8", "8", `times the uniform weight, 1/${n}`, -1, true);
      else drawing.showScale("0", formatNumber(top), `attention weight${scope}`, 0, false);
      setText(
        below,
        s.scale === "uniform" ? `${(8 * s.threshold).toFixed(2)} \u00d7 uniform` : (s.threshold * top).toFixed(3),
      );
      setText(title, where().replace("l", "L"));
      const order = [...values.keys()]
        .filter((i) => !isHidden(i, other))
        .sort((a, b) => values[b] - values[a] || a - b)
        .slice(0, 10);
      const three = order
        .slice(0, 3)
        .map((i) => `${m.labels[i]} ${values[i].toFixed(3)}`)
        .join(", ");
      const group = groups.shown();
      if (group) {
        const sum = formatTerm(sumOf(values, group[1]));
        if (subject === null) setText(status, `${groups.name(group)} receives ${sum} of the attention.`);
        else if (s.incoming) setText(status, attending(groups.name(group), name, sum));
        else setText(status, `${name} attends to ${groups.name(group)}: ${sum} of its attention.`);
      } else if (partner !== null) {
        const [i, j] = cell();
        setText(status, `${m.labels[i]} attends to ${m.labels[j]}: ${map.matrix(s.layer, s.head)[i * n + j].toFixed(4)}`);
      } else if (subject === null) setText(status, received(three));
      else setText(status, s.incoming ? `What attends most to ${name}: ${three}.` : `${name} attends most to ${three}.`);
      const head = [
        m.node_type,
        subject === null ? "received" : s.incoming ? `to ${name}` : `from ${name}`,
        "\u00d7 uniform",
        "",
      ];
      numbers.replaceChildren(
        table(
          head,
          order.map((i) => {
            const bar = h("div");
            bar.style.width = `${(100 * values[i]) / (top || 1)}%`;
            const cells = [values[i].toFixed(4), (values[i] * n).toFixed(2)].map((content) => h("td", {}, content));
            cells.push(h("td", { class: "length" }, bar));
            return h(
              "tr",
              { class: i === partner || i === subject ? "on" : "" },
              h("th", { scope: "row" }, m.labels[i]),
              ...cells,
            );
          }),
        ),
      );
      heat.draw(anew);
      setAttributes(heat.canvas, {
        "aria-label": `Weights, rows attend to columns, ${where()}. Arrow keys move; a table is below.`,
      });
      heads.updateSelection();
      weights();
    }
    const lines = () => [status.textContent, where(), `faithfulness: ${data.faithfulness[m.attention.faithfulness]}`];
    const rows = () => [
      ["layer", "head", "receiver", "sender", "receiver_symbol", "sender_symbol", "weight"],
      ...Array.from(map.matrix(s.layer, s.head), (w, k) => {
        const [i, j] = divmod(k, n);
        return [s.layer, s.head, i, j, m.symbols[i], m.symbols[j], Number(w.toPrecision(7))];
      }),
    ];
    const file = () => ["attention", `layer${s.layer}`, typeof s.head === "number" ? `head${s.head}` : s.head];
    return { view, draw, heat, drawing, lines, rows, file };
  }

  // -- attributions

  // A small drawing for each method of the same target, each on its own scale, with its faithfulness.
  function allMethods(chosen) {
    const methods = m.attributions.flatMap((a, k) => (a.target === chosen.target ? [{ a, k }] : []));
    if (methods.length < 2) return { view: "", paint: () => {}, select: () => {} };
    const drawings = methods.map(() => moleculeDrawing(m, handlers, true));
    const tops = methods.map(({ a }) => Math.max(...a.values.map(Math.abs)) || 1);
    const choose = (k) => {
      s.method = k;
      build();
      root.querySelector('.methods [aria-pressed="true"]').focus();
    };
    const cards = methods.map(({ a, k }, c) =>
      h(
        "figure",
        { class: "drawing" },
        h("button", { type: "button", "aria-pressed": String(k === s.method), onclick: () => choose(k) }, a.method),
        ...drawings[c].view,
        h("figcaption", {}, a.faithfulness),
      ),
    );
    return {
      view: h("div", { class: "methods" }, h("h2", {}, `All methods, ${chosen.target}`), h("div", {}, ...cards)),
      paint: () =>
        methods.forEach(({ a }, c) => {
          drawings[c].paint(a.values.map((v) => v / tops[c]), a.signed);
          drawings[c].showScale(a.signed ? formatNumber(-tops[c]) : "0", formatNumber(tops[c]), "", a.signed ? -1 : 0, a.signed);
        }),
      select: (subject, partner, atoms) => drawings.forEach((drawing) => drawing.select(subject, partner, null, atoms)),
    };
  }

  function attributionPanel() {
    map = null;
    const a = m.attributions[(s.method = clamp(s.method, 0, m.attributions.length - 1))];
    const drawing = moleculeDrawing(m, handlers),
      groups = groupList(),
      texts = formatValues(a.values, a.signed),
      unit = a.unit && a.has_unit ? ` ${a.unit}` : "",
      value = a.signed ? "contribution" : "weight";
    const sumOfGroup = (group, sum) => `${group}: ${sum}${unit} in sum.`;
    const ofAtom = (i) => `${m.labels[i]} ${a.signed ? "contributes" : "has the weight"} ${formatTerm(a.values[i])}${unit}.`;
    const order = [...a.values.keys()].sort((i, j) => Math.abs(a.values[j]) - Math.abs(a.values[i]));
    const three = order.slice(0, 3).map((k) => `${m.labels[k]} ${texts[k]}`);
    const largest = `Largest: ${three.join(", ")}.`;
    const [status, statusBox] = statusLine([
      largest,
      ...order.map(ofAtom),
      ...groups.names.map((group) => sumOfGroup(group, longestOf(texts))),
    ]);
    const select = h(
      "select",
      {
        onchange: () => {
          s.method = select.selectedIndex;
          s.target = targetOf(m.attributions[s.method].target);
          build();
        },
      },
      ...m.attributions.map((b, k) => h("option", { selected: k === s.method }, `${b.method}, of ${b.target}`)),
    );
    const line = (name, value, more) =>
      h("tr", more, h("th", { scope: "row" }, name), h("td", {}, value === null ? "unknown" : formatTerm(value)));
    const terms = new Map(
      order.map((i) => [
        i,
        line(m.labels[i], a.values[i], { onpointerenter: () => hover(i), onpointerleave: () => hover(null) }),
      ]),
    );
    const sum = a.values.reduce((x, y) => x + y, 0),
      top = Math.max(...a.values.map(Math.abs)) || 1;
    const outside = a.other_terms.reduce((x, [, v]) => x + (v ?? 0), 0),
      total = (a.constant ?? 0) + sum + outside,
      quantity = (a.quantity || "prediction") + (a.part && ` of ${a.part}`);
    const constant = a.constant === null ? [] : [["constant", "", a.constant]];
    const totals = [
      ...constant.map(([name, , v]) => line(name, v)),
      line(`all ${m.node_type}s`, sum),
      ...a.other_terms.map(([name, v]) => line(name, v)),
      ...(a.adds_up ? [line("sum", total)] : []),
      line(quantity, a.prediction, { class: "on" }),
      ...(a.probability === null ? [] : [line("probability", a.probability)]),
    ];
    const words = a.adds_up
      ? `The terms add up to the ${quantity}.`
      : `The values do not add up to the ${quantity}: compare them with each other.`;
    drawing.label(texts);
    const fractions = m.drawing.nodes.map((_, k) => (k < a.values.length ? a.values[k] / top : null));
    const others = allMethods(a);
    const heading = a.signed ? `What each ${m.node_type} contributes to` : `The weight of each ${m.node_type} for`;
    const colors = a.signed
      ? `Orange raises the ${quantity}, blue lowers it.`
      : "The stronger the color, the larger the weight. Weights have no sign.";
    const view = h(
      "section",
      {},
      h("div", { class: "bar" }, h("label", {}, "Method ", select)),
      h("div", { class: "now" }, h("h2", {}, `${heading} ${a.target}: ${a.method}`), statusBox),
      h(
        "div",
        { class: "views" },
        h(
          "div",
          {},
          h("figure", { class: "drawing main" }, ...drawing.view, h("figcaption", {}, colors)),
          groups.list,
        ),
        h(
          "div",
          {},
          table(["term", unit.trim() || "value"], totals),
          h(
            "div",
            { class: "terms", tabindex: 0, role: "region", "aria-label": `Terms of all ${m.node_type}s` },
            table([m.node_type, value], [...terms.values()]),
          ),
        ),
      ),
      h("footer", {}, h("p", {}, words), h("p", {}, h("b", {}, "Faithfulness: "), a.faithfulness), downloads()),
      others.view,
    );
    function paint() {
      const [low, from] = a.signed ? [formatNumber(-top), -1] : ["0", 0];
      drawing.showScale(low, formatNumber(top), value + (unit && `,${unit}`), from, a.signed);
      drawing.paint(fractions, a.signed);
      others.paint();
      groups.sums((atoms) => formatValues([sumOf(a.values, atoms)], a.signed)[0]);
    }
    // Colors are painted again only if `anew`, since pointing at atoms changes none.
    function draw(anew) {
      const { subject, partner } = focus(),
        i = partner ?? subject,
        group = groups.shown();
      if (anew) paint();
      drawing.select(subject, partner, s.pinned, groups.atoms());
      others.select(subject, partner, groups.atoms());
      bar.paint(fractions, a.signed, i);
      groups.press();
      terms.forEach((row, k) => row.classList.toggle("on", k === i || Boolean(group?.[1].includes(k))));
      setText(
        status,
        group
          ? sumOfGroup(groups.name(group), formatTerm(sumOf(a.values, group[1])))
          : i === null
            ? largest
            : i < a.values.length
              ? ofAtom(i)
              : "",
      );
    }
    const lines = () => [
      `${value}s ${a.signed ? "to" : "for"} ${a.target}, ${a.method}`,
      `faithfulness: ${a.faithfulness}`,
    ];
    const rows = () => [
      ["method", "target", "term", "index", "value"],
      ...[
        ...a.values.map((v, i) => [m.labels[i], i, v]),
        ...constant,
        ...a.other_terms.map(([name, v]) => [name, "", v ?? ""]),
        ["prediction", "", a.prediction ?? ""],
        ...(a.probability === null ? [] : [["probability", "", a.probability]]),
      ].map((row) => [a.method, a.target, ...row]),
    ];
    const file = () => [a.method, a.target];
    return { view, draw, drawing, lines, rows, file };
  }

  // -- the selection, and the predictions

  // The selected receiver and sender; either may be null.
  const cell = () => {
    const { subject, partner } = focus();
    return s.incoming ? [partner, subject] : [subject, partner];
  };
  const focus = () => s.hover ?? { subject: s.pinned, partner: null };

  // Of two classes, the probability of the second one.
  function prediction({ target, predicted, of, true: measured, unit }) {
    const part = (word, v) => (v === null ? [] : [` ${word} `, h("b", {}, v.at ? v : formatNumber(v))]);
    return h(
      "p",
      {},
      h("span", {}, target),
      ...part(of ? `p(${truncate(of, 20)})` : "predicted", predicted),
      ...part("true", measured),
      unit ? ` ${unit}` : "",
    );
  }

  // -- several molecules: a table to sort and to search, and a second molecule to compare with

  const titleOf = (o) => o.name || o.smiles;
  const shownValue = (v) => (v === null || v === undefined ? "" : v.at ? v : formatNumber(v));
  // The targets of the index, and the one that an attribution explains, which may be a class of it.
  const targets = [...new Set(data.molecules.flatMap((o) => o.outcomes.map((x) => x.target)))];
  const targetOf = (name) => (targets.includes(name) ? name : targets.find((t) => name.startsWith(`${t}_prob_`)));
  function moleculeTable() {
    const outcome = (k) => data.molecules[k].outcomes.find((x) => x.target === s.target) ?? {};
    const of = (name) => (k) => outcome(k)[name] ?? null;
    const VALUES = {
      molecule: (k) => titleOf(data.molecules[k]),
      predicted: of("predicted"),
      probability: of("probability"),
      true: of("true"),
      error: of("error"),
    };
    function heading(name) {
      const { of: positive, unit } = all.map(outcome).find((x) => x.target) ?? {},
        target = truncate(s.target ?? "", 30) + (unit ? ` (${truncate(unit, 20)})` : "");
      if (name === "molecule") return name;
      if (positive === undefined) return name === "error" ? `error of ${target}` : `${name} ${target}`;
      if (name === "error") return `error of ${target}: 1 \u2212 p(true class)`;
      if (name === "probability") return positive ? `p(${target} = ${truncate(positive, 20)})` : `p(predicted ${target})`;
      return `${name} ${target}`;
    }
    const all = [...data.molecules.keys()],
      head = h("thead"),
      body = h("tbody"),
      search = h("input", { type: "search", oninput: fill }),
      choice = h(
        "select",
        { onchange: () => fill((s.target = targets[choice.selectedIndex])) },
        ...targets.map((name) => h("option", {}, name)),
      ),
      box = h(
        "details",
        { class: "index" },
        h("summary", {}, `All ${all.length} molecules`),
        h("label", {}, "Find ", search),
        targets.length > 1 ? h("label", {}, "Target ", choice) : "",
        h("div", { tabindex: 0, role: "region", "aria-label": "All molecules" }, h("table", {}, head, body)),
      );
    let key = "",
      down = false,
      order = all;
    function fill() {
      s.target ??= targets[0];
      choice.selectedIndex = targets.indexOf(s.target);
      const shown = Object.keys(VALUES).filter((name) => all.some((k) => VALUES[name](k) !== null)),
        value = VALUES[key],
        size = (v) => (key === "error" ? Math.abs(v) : v);
      // The case of letters matters in SMILES only, where c is aromatic and C is not.
      const words = search.value.trim(),
        has = (o) => (o.name || "").toLowerCase().includes(words.toLowerCase()) || o.smiles.includes(words);
      order = all.filter((k) => has(data.molecules[k]));
      if (value)
        order.sort((a, b) => {
          const [x, y] = [value(a), value(b)];
          if (x === null || y === null) return (x === null) - (y === null) || a - b;
          return (down ? -1 : 1) * (size(x) > size(y) ? 1 : size(x) < size(y) ? -1 : 0) || a - b;
        });
      const sort = (name) => {
        [key, down] = [name, key === name ? !down : name === "error"];
        fill();
        head.querySelector("[aria-sort] button").focus();
      };
      const heads = shown.map((name) => {
        const sorted = name === key && (down ? "descending" : "ascending");
        return h("th", { scope: "col", "aria-sort": sorted }, h("button", { type: "button", onclick: () => sort(name) }, heading(name)));
      });
      head.replaceChildren(h("tr", {}, h("th", { scope: "col" }, "structure"), ...heads));
      const none = h("td", { colspan: shown.length + 1 }, `No name and no SMILES contains \u201c${words}\u201d.`);
      body.replaceChildren(
        ...(order.length ? [] : [h("tr", {}, none)]),
        ...order.map((k) => {
          const go = h("button", { type: "button", "aria-current": k === s.molecule && "true", onclick: () => choose(k) }, truncate(titleOf(data.molecules[k]), 60));
          const cells = shown.slice(1).map((name) => h("td", {}, shownValue(VALUES[name](k))));
          return h("tr", {}, h("td", {}, thumbnail(data.molecules[k])), h("td", {}, go), ...cells);
        }),
      );
    }
    const step = (by) => order[order.indexOf(s.molecule) + by];
    return { box, fill, step };
  }
  const contents = data.molecules.length > 1 && !nested ? moleculeTable() : null;
  function choose(k) {
    s.molecule = k;
    s.pinned = s.group = null;
    build();
  }
  const options = (chosen) =>
    data.molecules.map((o, k) => h("option", { value: k, selected: k === chosen }, `${k + 1}. ${truncate(titleOf(o), 70)}`));
  // Compare with molecule k, or with none if it is "". Both have the same layer and head, whichever of the two is changed.
  function compare(k) {
    comparison = null;
    if (k !== "") {
      const { layer, head } = s;
      comparison = h("div");
      comparison.k = Number(k);
      comparison.view = show(comparison, data, { molecule: comparison.k, layer, head, nested: true }, ({ layer, head }) => {
        if (comparison?.view) set({ layer, head });
      });
    }
    build();
    root.querySelector(".second").focus();
  }
  function chooser() {
    const go = (by, text) =>
      h("button", { type: "button", disabled: contents.step(by) === undefined, onclick: () => choose(contents.step(by)) }, text);
    const pick = h(
      "select",
      {
        onchange: () => {
          choose(pick.selectedIndex);
          root.querySelector("select").focus();
        },
      },
      ...options(s.molecule),
    );
    const second = h(
      "select",
      { class: "second", onchange: () => compare(second.value) },
      h("option", { value: "" }, "none"),
      ...options(comparison ? comparison.k : -1),
    );
    contents.fill();
    return h(
      "div",
      { class: "pick" },
      h("label", {}, "Molecule ", pick),
      go(-1, "Previous"),
      go(1, "Next"),
      h("label", {}, "Compare with ", second),
      contents.box,
    );
  }

  function build() {
    resized.disconnect();
    s.molecule = clamp(s.molecule, 0, data.molecules.length - 1);
    m = data.molecules[s.molecule];
    n = m.labels.length;
    if (s.pinned >= n) s.pinned = null;
    s.hover = pointed = null;
    const panels = [
      ["Attention", m.attention, attentionPanel],
      ["Attributions", m.attributions.length, attributionPanel],
    ].filter((p) => p[1]);
    s.tab = Math.min(s.tab, panels.length - 1);
    const selectTab = (tab, focused) => {
      s.tab = tab;
      build();
      if (focused) root.querySelector('[aria-selected="true"]').focus();
    };
    const tabs = panels.map(([name], k) =>
      h(
        "button",
        {
          type: "button",
          role: "tab",
          "aria-selected": String(k === s.tab),
          tabindex: k === s.tab ? 0 : -1,
          onclick: () => selectTab(k),
          onkeydown: (e) => ARROWS[e.key]?.[0] && selectTab(1 - k, true),
        },
        name,
      ),
    );
    bar = smilesBar();
    parts = panels[s.tab][2]();
    const whole = [
      h(
        "header",
        {},
        h(nested ? "h2" : "h1", { class: "title" }, m.name ? `${m.name}: ` : "", bar.text),
        h("div", { class: "predictions" }, ...m.predictions.map(prediction)),
      ),
      tabs.length > 1 ? h("div", { role: "tablist", "aria-label": truncate(titleOf(m), 60) }, ...tabs) : "",
      parts.view,
    ];
    root.replaceChildren(
      contents ? chooser() : "",
      ...(comparison ? [h("div", { class: "comparison" }, h("div", {}, ...whole), comparison)] : whole),
    );
    const panel = panels[s.tab][0];
    setAttributes(parts.view, { role: "tabpanel", "aria-label": nested ? `${panel} of the compared molecule` : panel });
    parts.draw(true);
    notify();
  }

  function update() {
    parts.draw();
    notify();
  }
  // Tell the compared molecule, and the caller, what is selected.
  function notify() {
    const now = [s.molecule, s.pinned, s.layer, s.head].join();
    if (now === reported) return;
    reported = now;
    comparison?.view?.set({ layer: s.layer, head: s.head });
    changed({ molecule: s.molecule, pinned: s.pinned, layer: s.layer, head: s.head });
  }
  const set = (values) => {
    if (!Object.entries(values).some(([k, v]) => s[k] !== v)) return;
    const another = (values.molecule ?? s.molecule) !== s.molecule;
    Object.assign(s, values);
    if (another) build();
    else update();
  };

  const rebuild = () => {
    build();
    comparison?.view?.rebuild();
  };
  const stop = nested ? null : watchColorScheme(root, rebuild);
  build();
  return { set, rebuild, stop };
}

// ---- entry points: a document, or anywidget -------------------------------------------------------------------------

// The selection in the fragment of a URL, such as "#molecule=1&layer=0&head=mean"; indices are from 0.
function fromAddress(hash) {
  const given = new URLSearchParams(hash.slice(1)),
    found = {};
  for (const key of ["molecule", "layer", "head"]) {
    const text = given.get(key) ?? "";
    if (/^\d{1,6}$/.test(text)) found[key] = Number(text);
    else if (key === "head" && ["mean", "max"].includes(text)) found.head = text;
  }
  return found;
}

export function start(document) {
  for (const data of document.querySelectorAll("script.molattn-data")) {
    const root = data.parentElement.querySelector(".molattn");
    let opened = false;
    root.view = show(root, JSON.parse(data.textContent), fromAddress(location.hash), ({ molecule, layer, head }) => {
      const layers = layer === null ? "" : `&layer=${layer}&head=${head}`;
      // A frame in a notebook has no URL of its own.
      if (opened && location.protocol !== "about:") history.replaceState(null, "", `#molecule=${molecule}${layers}`);
      opened = true;
    });
    window.addEventListener("hashchange", () => root.view.set(fromAddress(location.hash)));
  }
}

export default {
  render({ model, el }) {
    const names = ["pinned", "layer", "head"],
      read = () => Object.fromEntries(names.map((k) => [k, model.get(k)]));
    const view = show(el, model.get("content"), read(), (now) => {
      names.forEach((k) => model.set(k, now[k]));
      model.save_changes();
    });
    const listen = () => view.set(read());
    names.forEach((k) => model.on(`change:${k}`, listen));
    return () => {
      names.forEach((k) => model.off(`change:${k}`, listen));
      view.stop();
    };
  },
};
