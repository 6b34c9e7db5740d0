// Drawings of molecules, numbers and colors, for page.js and variants.js; after elements.js. drawing.py describes `m.drawing`.

// ---- numbers --------------------------------------------------------------------------------------------------------

const divmod = (k, n) => [(k / n) | 0, k % n];
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const formatNumber = (v) => minus(Math.abs(v) >= 1e4 || (v && Math.abs(v) < 1e-3) ? v.toPrecision(3) : v.toFixed(3));
const formatTerm = (v) => minus(v && Math.abs(v) < 1e-3 ? v.toPrecision(3) : v.toFixed(4));
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// ---- colors of the style sheet, as [r, g, b] -------------------------------------------------------------------------

const palette = {};
const HEAD_COLORS = 8;
const COLOR_QUERIES = ["(prefers-color-scheme: dark)", "(forced-colors: active)", "print"].map((query) => matchMedia(query));

function readPalette(root) {
  const probe = root.appendChild(h("span", { class: "probe" }));
  const heads = Array.from({ length: HEAD_COLORS }, (_, k) => `head-${k}`);
  for (const name of ["background", "muted", "border", "focus", "attention", "cell", "above", "below", ...heads]) {
    probe.style.color = `var(--${name})`;
    palette[name] = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  }
  probe.remove();
}

// Read the colors now and when the color scheme changes; returns a function that removes the listeners.
function watchColorScheme(root, repaint) {
  const changed = () => {
    readPalette(root);
    repaint();
  };
  readPalette(root);
  COLOR_QUERIES.forEach((query) => query.addEventListener("change", changed));
  return () => COLOR_QUERIES.forEach((query) => query.removeEventListener("change", changed));
}

// Call `make` while the page has its light colors, for files; returns what `make` returns.
function withLightColors(root, repaint, make) {
  const setLight = (on) => {
    root.classList.toggle("light-colors", on);
    readPalette(root);
    repaint();
  };
  setLight(true);
  const result = make();
  setLight(false);
  return result;
}

const css = (color) => `rgb(${color})`;
// The color of a fraction t, from -1 to 1 if signed, else from 0 to 1; the background for 0 and null. Signed values are blue
// below 0 and orange above; others have the color `largest` at 1, by default that of attention.
const rgb = (t, signed, largest) => {
  const end = signed ? (t < 0 ? palette.below : palette.above) : (largest ?? palette.attention);
  return end.map((c, k) => Math.round(palette.background[k] + Math.abs(t ?? 0) * (c - palette.background[k])));
};
// An image of n x n cells, of one pixel each; `fraction` is a function of the index of a cell.
const matrixImage = (n, signed, fraction) => {
  const image = new ImageData(n, n);
  for (let k = 0; k < n * n; k++) image.data.set([...rgb(fraction(k), signed, palette.cell), 255], 4 * k);
  return image;
};

// ---- labels ---------------------------------------------------------------------------------------------------------

// The box of each label, [x, y, half the width, half the height], next to its disc and away from the bonds of its atom; null
// if it would overlap with a disc, a letter or another label wherever it is.
function placeLabels(d, texts, font) {
  const [right, foot] = [d.left + d.width, d.top + d.height];
  const letters = (d.solid ?? "").split("M").slice(1).map((path) => {
    const numbers = path.match(/-?[\d.]+/g).map(Number),
      [xs, ys] = [0, 1].map((odd) => numbers.filter((_, k) => k % 2 === odd));
    const [left, top, far, low] = [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
    return [(left + far) / 2, (top + low) / 2, (far - left) / 2, (low - top) / 2];
  });
  const overlap = ([x, y, a, b], [u, v, c, e]) => Math.abs(x - u) < a + c + 1 && Math.abs(y - v) < b + e + 1;
  const onDisc = ([x, y, a, b], [u, v, half]) =>
    Math.hypot(Math.max(Math.abs(x - u) - a - half + d.radius, 0), Math.max(Math.abs(y - v) - b, 0)) < d.radius;
  const crosses = ([x, y, a, b], [i, j]) => {
    const [[u, v], [p, q]] = [d.nodes[i], d.nodes[j]];
    let [from, to] = [0, 1];
    for (const [at, step, half] of [[u - x, p - u, a], [v - y, q - v, b]]) {
      if (!step && Math.abs(at) > half) return false;
      const ends = step ? [(-half - at) / step, (half - at) / step].sort((s, t) => s - t) : [0, 1];
      [from, to] = [Math.max(from, ends[0]), Math.min(to, ends[1])];
    }
    return from < to;
  };
  const placed = [];
  return texts.map((text, i) => {
    const [x, y, half] = d.nodes[i],
      size = [0.3 * font * String(text).length, 0.37 * font];
    const away = [0, 0];
    for (const [a, b] of d.bonds)
      if (a === i || b === i) {
        const [u, v] = d.nodes[a === i ? b : a],
          far = Math.hypot(u - x, v - y) || 1;
        away[0] -= (u - x) / far;
        away[1] -= (v - y) / far;
      }
    let best = null,
      least = Infinity;
    for (let k = 0; k < 24 && text; k++) {
      const angle = (Math.PI * k) / 12,
        [c, s] = [Math.cos(angle), Math.sin(angle)];
      const box = [x + c * (half + 2 + size[0]), y + s * (d.radius + 2 + size[1]), ...size];
      const outside = box[0] - size[0] < d.left || box[0] + size[0] > right || box[1] - size[1] < d.top || box[1] + size[1] > foot;
      if (outside || d.nodes.some((node) => onDisc(box, node)) || [...letters, ...placed].some((other) => overlap(box, other)))
        continue;
      const cost = 4 * d.bonds.filter((bond) => crosses(box, bond)).length - c * away[0] - s * away[1] + 0.01 * k;
      if (cost < least) [best, least] = [box, cost];
    }
    if (best) placed.push(best);
    return best;
  });
}

// ---- zoom and pan ---------------------------------------------------------------------------------------------------

const MAX_ZOOM = 10;

// Zoom an SVG by button, key, pinch, and wheel with Ctrl; pan it by dragging. `changed` is called with the pixels per unit of
// the drawing and the zoom, from 1 (the whole drawing) to MAX_ZOOM.
function zoomable(svg, [left, top, width, height], changed) {
  const whole = [left + width / 2, top + height / 2];
  let zoom = 1,
    center = whole,
    shown = "",
    dragged = false;
  const pointers = new Map(); // by id: [last x, last y, first x, first y]
  const fit = () => {
    const { width: w, height: v } = svg.getBoundingClientRect();
    return w && v ? [w, v, Math.min(w / width, v / height)] : [width, height, 1];
  };
  function apply() {
    const [w, v, scale] = fit(),
      size = [w / scale / zoom, v / scale / zoom];
    const inside = (c, side, k) => (side > [width, height][k] ? whole[k] : clamp(c, whole[k] - ([width, height][k] - side) / 2, whole[k] + ([width, height][k] - side) / 2));
    center = center.map((c, k) => inside(c, size[k], k));
    const box = zoom === 1 ? [left, top, width, height] : [center[0] - size[0] / 2, center[1] - size[1] / 2, ...size];
    setAttributes(svg, { viewBox: box.map((x) => +x.toFixed(2)).join(" ") });
    svg.classList.toggle("zoomed", zoom > 1);
    const current = (scale * zoom).toFixed(2);
    if (current !== shown) changed(scale * zoom, zoom);
    shown = current;
  }
  const toDrawing = (x, y) => new DOMPoint(x, y).matrixTransform(svg.getScreenCTM().inverse());
  function zoomBy(factor, point) {
    const next = clamp(zoom * factor, 1, MAX_ZOOM),
      { x, y } = point ?? { x: center[0], y: center[1] };
    center = [x + (center[0] - x) * (zoom / next), y + (center[1] - y) * (zoom / next)];
    zoom = next;
    apply();
  }
  // The distance of two pointers, and the point between them.
  const pinch = () => {
    const [a, b] = [...pointers.values()];
    return [Math.hypot(a[0] - b[0], a[1] - b[1]), (a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  };
  const listen = (name, act, options) => svg.addEventListener(name, act, options);
  listen("wheel", (e) => {
    if (!e.ctrlKey && !e.metaKey) return;
    e.preventDefault();
    zoomBy(1.002 ** -e.deltaY, toDrawing(e.clientX, e.clientY));
  });
  listen("pointerdown", (e) => {
    if (e.isPrimary) pointers.clear();
    dragged = false;
    pointers.set(e.pointerId, [e.clientX, e.clientY, e.clientX, e.clientY]);
  });
  listen("pointermove", (e) => {
    const at = pointers.get(e.pointerId);
    if (!at) return;
    const before = pointers.size === 2 && pinch(),
      moved = [e.clientX - at[0], e.clientY - at[1]];
    if (!dragged && Math.hypot(e.clientX - at[2], e.clientY - at[3]) < 5) return;
    pointers.set(e.pointerId, [e.clientX, e.clientY, at[2], at[3]]);
    if (before) {
      const [far, x, y] = pinch();
      zoomBy(far / (before[0] || 1), toDrawing(x, y));
    } else if (zoom > 1) {
      const scale = fit()[2] * zoom;
      center = center.map((c, k) => c - moved[k] / scale);
      apply();
    } else return;
    if (!dragged) svg.setPointerCapture(e.pointerId);
    dragged = true;
  });
  for (const name of ["pointerup", "pointercancel"]) listen(name, (e) => pointers.delete(e.pointerId));
  // The end of a drag is not a click.
  listen("click", (e) => dragged && e.stopPropagation(), true);
  return {
    zoomBy,
    apply,
    reset: () => zoomBy(1 / MAX_ZOOM),
    // Pan so that a point is visible, with a margin.
    show([x, y], margin) {
      const [w, v, scale] = fit();
      const seen = [w, v].every((size, k) => Math.abs([x, y][k] - center[k]) < size / scale / zoom / 2 - margin);
      if (zoom > 1 && !seen) center = [x, y];
      if (zoom > 1 && !seen) apply();
    },
  };
}

// ---- the drawing: discs, bonds over them, pointer targets on top ----------------------------------------------------

const KEY_WIDTH = 300;
const LARGE = 60; // nodes; with more of them a transition of the colors would be slow

// Draw the molecule `m` of the data; `handlers` are `hover(node or null)` and `pin(node, by touch)`.
// The attributes of elements have the light colors, for files; the style sheet replaces them on the page. A small drawing
// has no pointer targets and no zoom.
function moleculeDrawing(m, handlers, small = false) {
  const d = m.drawing,
    n = d.nodes.length,
    width = Math.max(d.width, small ? 0 : 420),
    height = Math.max(d.height, small ? 0 : 180);
  const left = d.left - (width - d.width) / 2,
    top = d.top - (height - d.height) / 2;
  const box = ([x, y, half], more, grow = 0) =>
    h("svg:rect", {
      x: x - half - grow,
      y: y - d.radius - grow,
      width: 2 * (half + grow),
      height: 2 * (d.radius + grow),
      rx: d.radius + grow,
      ...more,
    });
  const path = (p, more) =>
    h("svg:path", { class: "bond", d: p || "", fill: "none", stroke: "#000", "stroke-width": 1.6, ...more });
  const word = (x, y, text, more) => h("svg:text", { x, y, "font-size": 10, fill: "#1b1f24", ...more }, text);
  const discs = d.nodes.map((p) => box(p, { class: "disc", "stroke-width": 0.7 }));
  const ring = (name, stroke, dash) =>
    box([0, 0, 0], { class: name, fill: "none", stroke, "stroke-width": 2.5, "stroke-dasharray": dash }, 1);
  const rings = [ring("subject", "#b84a00"), ring("partner", "#14507f", "4 3")];
  const links = h("svg:g", { fill: "none", "stroke-linecap": "round", "stroke-opacity": 0.8 });
  const tokens = m.node_type === "token";
  let texts = d.nodes.slice(0, m.num_atoms).map((_, i) => String(i));
  const halo = { stroke: "#fff", "stroke-width": 2.5, "paint-order": "stroke" };
  const numbers = texts.map((text) => word(0, 0, text, { class: "number", ...halo }));
  const bonded = (i) => d.bonds.flatMap(([a, b]) => (a === i ? [b] : b === i ? [a] : []));
  const hits = small
    ? discs
    : d.nodes.map((p, i) => {
        const label = [m.labels[i], ...bonded(i).map((j) => m.labels[j])].join(" next to ");
        return box(p, { class: "hit", fill: "transparent", role: "button", tabindex: i ? -1 : 0, "aria-label": label }, 2);
      });
  const steps = Array.from({ length: 24 }, (_, k) => h("svg:rect", { x: 90 + 5 * k, y: 3, width: 5.2, height: 10 }));
  const [low, high, legend] = [
    [84, 12, "end"],
    [216, 12, "start"],
    [150, 28, "middle"],
  ].map(([x, y, anchor]) => word(x, y, "", { "font-size": 12, "text-anchor": anchor }));
  const key = h("svg:svg", { class: "key", viewBox: `0 0 ${KEY_WIDTH} 34` }, ...steps, low, high, legend);
  let pointer = "";
  const svg = h(
    "svg:svg",
    {
      class: n > LARGE ? "molecule large" : "molecule",
      viewBox: [left, top, width, height].join(" "),
      "font-family": "system-ui, sans-serif",
      "text-anchor": "middle",
      "stroke-linejoin": "round",
      role: small ? "img" : "group",
      "aria-label": small
        ? `The ${m.node_type}s of ${truncate(m.smiles, 200)}`
        : `The ${m.node_type}s of ${truncate(m.smiles, 200)}; arrow keys move, Enter pins, Escape clears, + and - zoom`,
      onpointerdown: (e) => (pointer = e.pointerType),
      onpointerover: (e) => e.pointerType !== "touch" && handlers.hover(nodeOf(e)),
      onpointerleave: (e) => e.pointerType !== "touch" && handlers.hover(null),
      onclick: (e) => handlers.pin(nodeOf(e), pointer === "touch"),
      onkeydown: press,
    },
    ...discs,
    links,
    ...rings,
    path(d.lines),
    path(d.thin, { "stroke-width": 1 }),
    path(d.dashed, { "stroke-dasharray": "2 2" }),
    path(d.solid, { class: "letter", fill: "#000", "stroke-width": 0 }),
    ...d.nodes.flatMap(([x, y], i) =>
      tokens || i >= m.num_atoms ? [word(x, y + 4.5, truncate(m.symbols[i], 24), { "font-size": 13 })] : [],
    ),
    ...numbers,
    ...(small ? [] : hits),
  );
  // Listeners of focus are here: an SVG that has one can be focused by the Tab key.
  const stage = h(
    "div",
    {
      onfocusin: (e) => {
        const i = nodeOf(e);
        if (i !== null) zoom?.show(d.nodes[i], 2 * d.radius);
        handlers.hover(i);
      },
      onfocusout: () => handlers.hover(null),
    },
    svg,
  );
  svg.style.aspectRatio = `${width} / ${height}`;
  // Labels have at least 9 pixels. Those without room are hidden, until zooming in makes room.
  function place(scale) {
    const font = clamp(9.5 / scale, 9, 22);
    const places = tokens ? d.indices.map(([x, y]) => [x, y]) : placeLabels(d, texts, font);
    numbers.forEach((number, i) =>
      setAttributes(number, {
        visibility: places[i] ? "" : "hidden",
        x: places[i]?.[0] ?? 0,
        y: (places[i]?.[1] ?? 0) + 0.35 * font,
        "font-size": font,
      }),
    );
  }
  let scaleNow = 1;
  const zoom = small
    ? null
    : zoomable(svg, [left, top, width, height], (scale, times) => {
        place((scaleNow = scale));
        whole.disabled = times === 1;
        zoomIn.disabled = times === MAX_ZOOM;
        zoomOut.disabled = times === 1;
      });
  const button = (text, name, act) =>
    h("button", { type: "button", title: name, "aria-label": name, disabled: text !== "+", onclick: act }, text);
  const zoomIn = button("+", "Zoom in", () => zoom.zoomBy(1.6)),
    zoomOut = button("\u2212", "Zoom out", () => zoom.zoomBy(1 / 1.6)),
    whole = button("\u2922", "Whole molecule", () => zoom.reset());
  const under = h("div", { class: "under" }, key, small ? "" : h("div", { class: "zoom" }, zoomIn, zoomOut, whole));
  if (small) numbers.forEach((number) => number.remove());
  else {
    place(1);
    new ResizeObserver(() => zoom.apply()).observe(svg);
  }
  // The node that an arrow key moves to: a bonded atom in that direction, or else a near node.
  function nextNode(from, [dx, dy]) {
    const [x, y] = d.nodes[from];
    let best = from,
      least = Infinity;
    for (const near of [bonded(from), d.nodes.keys()]) {
      for (const j of near) {
        const [u, v] = [d.nodes[j][0] - x, d.nodes[j][1] - y],
          far = Math.hypot(u, v);
        const aim = (u * dx + v * dy) / far,
          cost = far * (2.2 - aim) ** 3;
        if (j !== from && aim > 0.3 && cost < least) [best, least] = [j, cost];
      }
      if (best !== from) break;
    }
    return best;
  }
  const nodeOf = (event) => ((i) => (i < 0 ? null : i))(hits.indexOf(event.target));
  const focusNode = (i) => hits.forEach((hit, k) => setAttributes(hit, { tabindex: k === i ? 0 : -1 })) || hits[i].focus();
  function press(e) {
    const i = nodeOf(e),
      times = { "+": 1.6, "=": 1.6, "-": 1 / 1.6, 0: 1 / MAX_ZOOM }[e.key];
    if (i === null || e.ctrlKey || e.metaKey || e.altKey) return;
    const next = ARROWS[e.key]
      ? nextNode(i, ARROWS[e.key])
      : { Home: 0, End: n - 1, PageUp: Math.max(i - 1, 0), PageDown: Math.min(i + 1, n - 1) }[e.key];
    if (next !== undefined) focusNode(next);
    else if (times) zoom.zoomBy(times, { x: d.nodes[i][0], y: d.nodes[i][1] });
    else if (e.key === "Enter" || e.key === " ") handlers.pin(i);
    else return;
    e.preventDefault();
  }
  const placeRing = (ring, i) => {
    const [x, y, half] = d.nodes[i ?? 0],
      r = d.radius + 2;
    setAttributes(ring, {
      visibility: i === null ? "hidden" : "",
      x: x - half - 2,
      y: y - r,
      width: 2 * half + 4,
      height: 2 * r,
      rx: r,
    });
  };
  return {
    svg,
    view: [stage, under],
    // Color the discs by fractions from -1 to 1, or from 0 to 1 if not signed; null for no color.
    paint: (fractions, signed) => discs.forEach((disc, i) => setAttributes(disc, { fill: css(rgb(fractions[i] ?? 0, signed)) })),
    // Draw arcs between the edges of discs: [from, to, width from 0 to 1, name of the color].
    arcs: (found) =>
      links.replaceChildren(
        ...found.map(([i, j, fraction, color]) => {
          const [[x, y], [u, v]] = [d.nodes[i], d.nodes[j]],
            far = Math.hypot(u - x, v - y) || 1,
            [a, b] = [(u - x) / far, (v - y) / far],
            bend = 0.2 * far + 8;
          const middle = [(x + u) / 2 + b * bend, (y + v) / 2 - a * bend];
          const edge = ([p, q]) => {
            const [c, e] = [middle[0] - p, middle[1] - q],
              r = d.radius / (Math.hypot(c, e) || 1);
            return [p + c * r, q + e * r];
          };
          const [from, to] = [edge([x, y]), edge([u, v])].map((p) => p.map((c) => c.toFixed(1)).join(" "));
          const at = middle.map((c) => c.toFixed(1)).join(" ");
          return h("svg:path", {
            d: `M${from}Q${at} ${to}`,
            stroke: css(palette[color]),
            "stroke-width": (1 + 5 * Math.min(fraction, 1)).toFixed(2),
          });
        }),
      ),
    // Mark the subject and its partner, which may be null, by rings, and outline the atoms of a group.
    select(subject, partner, pinned, group = []) {
      const member = new Set(group);
      placeRing(rings[0], subject);
      placeRing(rings[1], partner);
      discs.forEach((disc, i) =>
        setAttributes(disc, {
          stroke: css(member.has(i) ? palette.focus : palette.border),
          "stroke-width": member.has(i) ? 3 : 0.7,
        }),
      );
      if (!small) hits.forEach((hit, i) => setAttributes(hit, { "aria-pressed": i === pinned }));
    },
    // Show these texts at the atoms, instead of their indices.
    label(labels) {
      texts = labels;
      texts.forEach((text, i) => numbers[i] && setText(numbers[i], text));
      place(scaleNow);
    },
    // Show the color scale from the fraction `from` to 1, with labels at both ends and a legend.
    showScale(lowLabel, highLabel, text, from, signed) {
      steps.forEach((step, k) => setAttributes(step, { fill: css(rgb(from + ((1 - from) * k) / 23, signed)) }));
      [
        [low, lowLabel],
        [high, highLabel],
        [legend, text],
      ].forEach((pair) => setText(...pair));
    },
    // An SVG document with the drawing, its scale and lines of text: { text, width, height }.
    file(lines) {
      place(1);
      const foot = top + height,
        size = height + 48 + 16 * lines.length;
      const shown = [...svg.children].filter((e) => !e.matches(".hit, [visibility=hidden]")).map((e) => e.cloneNode(true));
      const scale = h("svg:g", { transform: `translate(${left + (width - KEY_WIDTH) / 2} ${foot + 4})` });
      scale.append(...[...key.children].map((e) => e.cloneNode(true)));
      const copy = svg.cloneNode(false);
      copy.removeAttribute("style");
      setAttributes(copy, { viewBox: [left, top, width, size].join(" "), width, height: size });
      copy.append(
        h("svg:title", {}, lines.join("; ")),
        h("svg:rect", { x: left, y: top, width, height: size, fill: css(palette.background) }),
        ...shown,
        scale,
        ...lines.map((line, k) =>
          word(left + width / 2, foot + 52 + 16 * k, truncate(line, Math.floor(width / 5.5)), { "font-size": 10.5 }),
        ),
      );
      place(scaleNow);
      return { text: new XMLSerializer().serializeToString(copy), width, height: size };
    },
  };
}

// A small drawing of the structure without values, for lists.
function thumbnail({ drawing: d }, more) {
  const path = (name, shape) => h("svg:path", { class: name, d: shape || "" });
  const box = [d.left, d.top, d.width, d.height].join(" ");
  return h(
    "svg:svg",
    { viewBox: box, class: "thumbnail", "aria-hidden": "true", ...more },
    ...[d.lines, d.thin, d.dashed].map((shape) => path("bond", shape)),
    path("letter", d.solid),
  );
}
