// The page of the variants of a molecule, after page.js, whose functions it uses. variants.py describes `data`.

const signed = (v) => (v > 0 ? "+" : v < 0 ? "\u2212" : "") + Math.abs(v).toFixed(Math.abs(v) < 0.0995 && v ? 3 : 2);
const most = (values) => values.reduce((top, v) => (v === null ? top : Math.max(top, Math.abs(v))), 0) || 1;
const total = (values) => values.reduce((x, v) => x + v, 0);

export function showVariants(root, data) {
  const { parent, properties, variants } = data;
  const several = properties.length > 1;
  const s = { property: 0, chosen: null, atom: null, near: false, sure: false, front: false, sort: ["", 1], view: "values" };
  root.classList.add("molattn", "variants");
  watchColorScheme(root, () => update());
  const id = Math.random().toString(36).slice(2);
  const of = (v) => v.properties[s.property];
  const property = () => properties[s.property];
  const labels = (v) => v.atoms.map((i) => parent.labels[i]).join(", ");

  const radios = (words, name, options) =>
    radioGroup(words, `${name} ${id}`, options, s[name], (value) => {
      s[name] = value;
      update();
    });
  const check = (name, words) => {
    const input = h("input", {
      type: "checkbox",
      onchange: () => {
        s[name] = input.checked;
        listAnew();
      },
    });
    return h("label", {}, input, words);
  };

  // -- the parent: the best and the worst change at each atom

  const filtered = () =>
    s.atom === null ? "Choose an atom to list only its variants." : `Variants at ${parent.labels[s.atom]}; Escape shows all.`;
  const sentences = properties.flatMap((p) => p.best.map((_, i) => describe(i, p)));
  const [status, statusBox] = statusLine([filtered(), ...sentences]);
  const handlers = {
    hover: (i) => setText(status, i === null ? filtered() : describe(i, property())),
    pin: (i) => {
      s.atom = i === s.atom ? null : i;
      update();
      listBox.scrollTop = 0;
    },
  };
  const drawings = { best: moleculeDrawing(parent, handlers), worst: moleculeDrawing(parent, handlers) };

  function describe(i, p) {
    if (p.best[i] === null) return `${parent.labels[i]}: no variant.`;
    return `${parent.labels[i]}: from ${signed(p.worst[i])} (worst) to ${signed(p.best[i])} (best).`;
  }

  function paintParent() {
    const p = property(),
      unit = p.unit && `, ${p.unit}`;
    for (const kind of ["best", "worst"]) {
      const top = most(p[kind]);
      drawings[kind].paint(p[kind].map((v) => (v === null ? null : v / top)), true);
      drawings[kind].select(s.atom, null, s.atom);
      drawings[kind].showScale(signed(-top), signed(top), `${kind} change of ${p.name}${unit}`, -1, true);
    }
    setText(status, filtered());
  }

  // -- the list

  const pairs = (n, kind = "") => `${n} ${kind}pair${n === 1 ? "" : "s"}`;
  const small = (...words) => h("small", {}, ...words);
  const rows = variants.map((v, k) => {
    const choose = h(
      "button",
      { type: "button", class: "choose", onclick: () => pick(k), onkeydown: (e) => walk(e, k) },
      thumbnail(v.molecule),
      h("span", {}, v.name, small(` at ${labels(v)}`)),
    );
    const changes = v.properties.flatMap((p) => [
      h(
        "td",
        {},
        h("b", {}, signed(p.change)),
        small(`${signed(p.lower)} to ${signed(p.upper)}`),
        ...(p.lower > 0 || p.upper < 0 ? [] : [h("span", { class: "mark" }, "direction unknown")]),
        ...(p.in_domain === false ? [h("span", { class: "mark" }, "unlike the training set")] : []),
      ),
      h("td", {}, formatNumber(p.prediction)),
      h("td", {}, ...(p.effect ? [signed(p.effect[1]), small(pairs(p.effect[0]))] : [])),
    ]);
    const alerts = v.alerts.map((name) => (v.new_alerts.includes(name) ? `new: ${name}` : name)).join(", ");
    const element = h(
      "tr",
      {},
      h("th", { scope: "row" }, choose),
      ...(several ? [h("td", {}, v.front ? "yes" : "")] : []),
      ...changes,
      h("td", {}, v.accessibility === null ? "" : v.accessibility.toFixed(1)),
      h("td", { class: "alerts" }, alerts.replaceAll("_", " ")),
    );
    return { v, k, element, choose };
  });
  const columns = [
    ["variant", null],
    ...(several ? [["Pareto front", null]] : []),
    ...properties.flatMap((p, k) => [
      [several ? `${p.name}: change` : "change", (v) => v.properties[k].change, p.goal === "maximize" ? -1 : 1],
      ["predicted", null],
      ["measured in pairs", (v) => v.properties[k].effect?.[1] ?? null, p.goal === "maximize" ? -1 : 1],
    ]),
    ["synthetic accessibility", (v) => v.accessibility, 1],
    ["alerts", (v) => v.new_alerts.length, 1],
  ];
  const heads = columns.map(([name, value, first], column) =>
    h("th", { scope: "col" }, value ? h("button", { type: "button", onclick: () => sortBy(column, first) }, name) : name),
  );
  // What is listed if that is not all.
  const part =
    data.total > variants.length
      ? ` The ${variants.length} listed are the best, and the best and the worst at each atom; -n ${data.total} lists all.`
      : "";
  const body = h("tbody"),
    listBox = h(
      "div",
      { class: "list", tabindex: 0, role: "region", "aria-label": "Variants" },
      h("table", {}, h("thead", {}, h("tr", {}, ...heads)), body),
    ),
    count = h("p", { class: "name", role: "status" });

  function sortBy(column, first) {
    s.sort = [column, s.sort[0] === column ? -s.sort[1] : first];
    listAnew();
  }
  const shown = () =>
    rows.filter(
      ({ v }) =>
        (s.atom === null || v.atoms.includes(s.atom)) &&
        (!s.near || of(v).in_domain !== false) &&
        (!s.sure || of(v).lower > 0 || of(v).upper < 0) &&
        (!s.front || v.front),
    );
  function list() {
    const [column, direction] = s.sort,
      value = column === "" ? null : columns[column][1];
    const found = shown();
    if (value)
      found.sort((a, b) => {
        const [x, y] = [value(a.v), value(b.v)];
        return (x === null) - (y === null) || direction * (x - y) || a.k - b.k;
      });
    body.replaceChildren(...(found.length ? found.map((row) => row.element) : [h("tr", {}, h("td", { class: "none", colspan: columns.length }, emptiness()))]));
    heads.forEach((head, k) => head.setAttribute("aria-sort", k !== column ? "none" : direction > 0 ? "ascending" : "descending"));
    setText(count, `${found.length} of ${data.total} variants.${part}`);
  }
  // After a change of the order or of the filters, with the first row in view.
  function listAnew() {
    list();
    listBox.scrollTop = 0;
  }
  // Why no variant is listed.
  function emptiness() {
    const at = s.atom === null ? "" : ` at ${parent.labels[s.atom]}`;
    if (!variants.some((v) => s.atom === null || v.atoms.includes(s.atom))) return `There is no variant${at}.`;
    const hidden = [
      ...(s.near ? ["those unlike the training set"] : []),
      ...(s.sure ? ["those of unknown direction"] : []),
      ...(s.front ? ["those outside the Pareto front"] : []),
    ];
    return `No variant${at} is left: ${hidden.join(" and ")} are hidden.`;
  }
  function walk(e, k) {
    const step = ARROWS[e.key]?.[1];
    if (!step) return;
    e.preventDefault();
    const buttons = [...body.querySelectorAll(".choose")];
    buttons[clamp(buttons.indexOf(rows[k].choose) + step, 0, buttons.length - 1)].focus();
  }

  // -- a variant compared with its parent

  const compare = h("section", { class: "compare", "aria-label": "A variant compared with its parent", tabindex: -1 });

  function pick(k) {
    s.chosen = k;
    update();
    compare.scrollIntoView({ block: "nearest" });
  }

  const notComputed = (v) => [
    h("p", {}, "Contributions are computed for the first variants and the best at each atom only. Those of this one, beside its parent:"),
    h("p", {}, h("code", {}, `molattn view RUN --smiles '${parent.smiles}' --smiles '${v.molecule.smiles}'`)),
  ];
  function compareWith() {
    rows.forEach((row) => {
      row.element.classList.toggle("on", row.k === s.chosen);
      row.choose.setAttribute("aria-pressed", row.k === s.chosen);
    });
    if (s.chosen === null) {
      compare.replaceChildren(h("p", { class: "name" }, "Choose a variant to compare it with its parent."));
      return;
    }
    const v = variants[s.chosen],
      now = of(v),
      before = property();
    const views = [
      ...(now.values && before.values
        ? [
            ["values", "what each atom contributes"],
            ["difference", "the difference"],
          ]
        : []),
      ...(now.received && before.received ? [["received", "attention received"]] : []),
    ];
    if (views.length && !views.some(([name]) => name === s.view)) s.view = views[0][0];
    const sides = [moleculeDrawing(parent, noHandlers), moleculeDrawing(v.molecule, noHandlers)];
    const words = h("p", {});
    if (views.length) paintSides(sides, v, now, before, words);
    else
      sides.forEach((side, k) => {
        side.paint([parent, v.molecule][k].labels.map(() => null), true);
        side.select(null, null, null);
      });
    const line = (name, p) => `${name} ${formatNumber(p.prediction)}${before.unit && ` ${before.unit}`}`;
    compare.replaceChildren(
      h("h2", {}, `${v.name} at ${labels(v)}`),
      h(
        "p",
        {},
        `${before.name} changes by `,
        h("b", {}, signed(now.change)),
        `, ${Math.round(100 * before.level)}% interval ${signed(now.lower)} to ${signed(now.upper)}`,
        now.lower > 0 || now.upper < 0 ? "." : ": its direction is not known.",
        now.in_domain === false ? " The variant is unlike the training set, where the interval may be too narrow." : "",
        now.effect
          ? ` Measured in ${pairs(now.effect[0], "matched ")}: ${signed(now.effect[1])}${now.effect[2] === null ? "" : ` \u00b1 ${now.effect[2].toFixed(2)}`}.`
          : "",
      ),
      ...(before.values && !now.computed ? notComputed(v) : []),
      views.length ? h("div", { class: "bar" }, radios("Show", "view", views)) : "",
      h(
        "div",
        { class: "sides" },
        ...[
          [line("Parent:", before), parent.smiles],
          [line("Variant:", now), v.molecule.smiles],
        ].map(([name, smiles], k) =>
          h(
            "figure",
            { class: "drawing" },
            h("figcaption", {}, h("b", {}, name), ` ${smiles}`),
            ...(views.length ? sides[k].view : [sides[k].svg]),
          ),
        ),
      ),
      words,
    );
  }
  const noHandlers = { hover: () => {}, pin: () => {} };

  function paintSides([left, right], v, now, before, words) {
    const paint = (drawing, values, top, signed) => {
      drawing.paint(values.map((x) => (x === null ? null : x / top)), signed);
      drawing.select(null, null, null);
    };
    const back = new Map(v.parent_atoms.flatMap((p, i) => (p < 0 ? [] : [[p, i]])));
    if (s.view === "received") {
      const top = most([...now.received, ...before.received]);
      paint(left, before.received, top, false);
      paint(right, now.received, top, false);
      [left, right].forEach((d) => d.showScale("0", formatNumber(top), "attention received, last layer", 0, false));
      setText(words, "Mean over heads and receivers. Attention weights are not contributions to the prediction.");
      return;
    }
    const difference = now.values.map((x, i) => (v.parent_atoms[i] < 0 ? null : x - before.values[v.parent_atoms[i]]));
    const common = total(difference),
      added = total(now.values.filter((_, i) => v.parent_atoms[i] < 0)),
      lost = total(before.values.filter((_, p) => !back.has(p)));
    const [a, b] =
      s.view === "values"
        ? [before.values, now.values]
        : [before.values.map((_, p) => (back.has(p) ? difference[back.get(p)] : null)), difference];
    const top = most([...a, ...b]);
    paint(left, a, top, true);
    paint(right, b, top, true);
    [
      [left, a],
      [right, b],
    ].forEach(([d, values]) => {
      d.label(values.map((x) => (x === null ? "" : signed(x))));
      d.showScale(signed(-top), signed(top), s.view === "values" ? "contribution" : "difference of the contributions", -1, true);
    });
    const rest = now.rest === null || before.rest === null ? null : now.rest - before.rest,
      unit = before.unit && ` (${before.unit})`;
    setText(
      words,
      `Contributions by ${before.method}${before.part && ` to the prediction of ${before.part}`}${unit}: the shared atoms ` +
        `differ by ${signed(common)}, the new ones have ${signed(added)}, the lost ones had ${signed(lost)}` +
        (rest === null
          ? ". They do not add up to the change."
          : `, and what belongs to no atom differs by ${signed(rest)}: in all ${signed(common + added - lost + rest)}.`) +
        ` Faithfulness: ${before.faithfulness}`,
    );
  }

  // -- the page

  function update() {
    paintParent();
    list();
    compareWith();
  }
  const choice = h(
    "select",
    {
      onchange: () => {
        s.property = choice.selectedIndex;
        update();
      },
    },
    ...properties.map((p) => h("option", {}, p.name)),
  );
  root.addEventListener("keydown", (e) => e.key === "Escape" && handlers.pin(s.atom));
  const about = (p) => [
    h("b", {}, p.name),
    ` ${formatNumber(p.prediction)}${p.unit && ` ${p.unit}`}` +
      (p.measured === null ? "" : `, measured ${formatNumber(p.measured)}`) +
      (p.known === null ? "" : `, ${p.known ? "in" : "not in"} the training set`) +
      `; ${p.goal === "maximize" ? "the higher the better" : "the lower the better"}.`,
  ];
  const trust = (p) =>
    h(
      "p",
      {},
      h("b", {}, `${p.name}: `),
      `${Math.round(100 * p.level)}% intervals of the changes from ${p.source}. Predicted and measured changes: ${p.agreement}.`,
    );
  const near = properties.some((_, k) => variants.some((v) => v.properties[k].in_domain === false));
  root.replaceChildren(
    h("header", {}, h("h1", {}, parent.smiles), ...properties.map((p) => h("p", {}, ...about(p)))),
    h("div", { class: "trust" }, ...properties.map(trust)),
    several ? h("div", { class: "bar" }, h("label", {}, "Property ", choice)) : "",
    statusBox,
    h(
      "div",
      { class: "parents" },
      ...["best", "worst"].map((kind) =>
        h("figure", { class: "drawing" }, h("figcaption", {}, h("b", {}, `The ${kind} change at each atom`)), ...drawings[kind].view),
      ),
    ),
    compare,
    h(
      "div",
      { class: "bar filters" },
      near ? check("near", "hide those unlike the training set") : "",
      check("sure", "hide those of unknown direction"),
      several ? check("front", "only the Pareto front") : "",
      count,
    ),
    listBox,
    h(
      "footer",
      {},
      h(
        "p",
        {},
        "Synthetic accessibility is a score from 1, easy, to 10, hard. Alerts are patterns of BRENK and PAINS: reasons to look " +
          "closer, not verdicts. A predicted change is not a measurement.",
      ),
    ),
  );
  update();
}

export function startVariants(document) {
  for (const data of document.querySelectorAll("script.molattn-data"))
    showVariants(data.parentElement.querySelector(".molattn"), JSON.parse(data.textContent));
}
