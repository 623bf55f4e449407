// What all explorers share. An explorer takes the place of a picture that a notebook drew, in a cell
// with the tag explorer-NAME (site/explorers.py). Its state stands in the address, where it differs
// from the start: #explorer=NAME&key=value. Nothing moves by itself.
"use strict";

const explorers = {}; // by name, what each of them computes: the tests compare it with normlib

// A state is described by a value for each key: {start, among: [texts]}, {start, min, max, step}, or
// the latter with a list of numbers as its start.

/** The nearest value that a description allows; without a meaning it is the one at the start. */
function allowed(value, { start, min, max, among }) {
  if (among) return among.includes(value) ? value : start;
  if (Array.isArray(start)) {
    const whole = Array.isArray(value) && value.length === start.length;
    return start.map((one, i) => allowed(whole ? value[i] : one, { start: one, min, max }));
  }
  return Number.isNaN(value) ? start : Math.min(max, Math.max(min, value));
}

/** The state that the address names for this explorer, or null where it names another, or none. */
function stateInAddress(name, kinds, hash) {
  const said = new URLSearchParams(hash.slice(1));
  if (said.get("explorer") !== name) return null;
  const number = (text) => (text.trim() === "" ? NaN : Number(text));
  const value = (key, { start, among }) => {
    const text = said.get(key);
    if (text === null) return start;
    if (among) return text;
    return Array.isArray(start) ? text.split(",").map(number) : number(text);
  };
  const pairs = Object.entries(kinds).map(([key, kind]) => [key, allowed(value(key, kind), kind)]);
  return Object.fromEntries(pairs);
}

function addressOfState(name, kinds, state) {
  const text = (value) => [value].flat().map((v) => (v === +v ? +v.toPrecision(4) : v)).join(",");
  const changed = Object.keys(kinds).filter((key) => text(state[key]) !== text(kinds[key].start));
  const said = new URLSearchParams(changed.map((key) => [key, text(state[key])]));
  return `#explorer=${name}${changed.length ? "&" : ""}${said}`.replaceAll("%2C", ",");
}

/** A number as the pages write it. */
function fixed(value, digits = 2) {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/** As many numbers, as if from a normal distribution, the same every time. */
function normals(count) {
  let state = 1;
  const uniform = () => ((state = (state * 48271) % 2147483647) - 0.5) / 2147483647;
  return Array.from({ length: count }, () =>
    Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()));
}

const average = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

const across = (from, to, low, high) => (value) => from + ((value - low) / (high - low)) * (to - from);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const KEYS = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
Object.assign(KEYS, { PageUp: [0, 10], PageDown: [0, -10], End: [0, 1e6], Home: [0, -1e6] });

/** Draws in an SVG, each thing under a name of its own. What is drawn again is only changed, so that
 * it keeps the focus; what is not drawn again goes. */
function pen(svg) {
  const known = new Map();
  const drawn = new Set();
  let last = null;

  function put(name, tag, attributes = {}, text = undefined) {
    if (!known.has(name)) {
      known.set(name, document.createElementNS("http://www.w3.org/2000/svg", tag));
      svg.insertBefore(known.get(name), last ? last.nextSibling : svg.firstChild);
    }
    const node = known.get(name);
    last = node;
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    drawn.add(name);
    return node;
  }

  const place = (event) =>
    new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());

  /** A dot to drag, or to move by keys. says: what it is and its value, in words;
   * to({x, y}): it was dragged to this point of the drawing; by(right, up): so many steps by keys. */
  function handle(name, { x, y, label, says, now, min, max, to, by, kind = "" }) {
    put(`${name} mark`, "circle", { cx: x, cy: y, r: 7, class: `mark ${kind}` });
    const node = put(name, "circle", {
      cx: x, cy: y, r: 24, class: "handle", role: "slider", tabindex: 0, "aria-label": label,
      "aria-valuetext": says, "aria-valuenow": now, "aria-valuemin": min, "aria-valuemax": max,
    });
    node.onpointerdown = (event) => {
      node.setPointerCapture(event.pointerId);
      node.focus({ preventScroll: true });
      event.preventDefault();
    };
    node.ontouchstart = (event) => event.preventDefault(); // else the page scrolls, and takes the finger
    node.onpointermove = (event) => node.hasPointerCapture(event.pointerId) && to(place(event));
    node.onkeydown = (event) => {
      if (!KEYS[event.key]) return;
      by(...KEYS[event.key]);
      event.preventDefault();
    };
  }

  /** A line below with numbers under it. */
  function scale(toX, y, ends, ticks, said = (value) => fixed(value, 0)) {
    put("scale", "line", { x1: toX(ends[0]), x2: toX(ends[1]), y1: y, y2: y, class: "axis" });
    for (const value of ticks) {
      put(`tick ${value}`, "line", { x1: toX(value), x2: toX(value), y1: y, y2: y + 4, class: "axis" });
      put(`number ${value}`, "text", { x: toX(value), y: y + 17, class: "middle" }, said(value));
    }
  }

  /** Samples of lines and what they stand for, side by side: pairs of a kind and a text. */
  function legend(x, y, pairs) {
    pairs.forEach(([kind, text], k) => {
      const at = x + k * 106;
      put(`${kind} sample`, "line", { x1: at, x2: at + 16, y1: y - 4, y2: y - 4, class: kind });
      put(`${kind} said`, "text", { x: at + 20, y }, text);
    });
  }

  function finish() {
    for (const [name, node] of known) {
      if (drawn.has(name)) continue;
      node.remove();
      known.delete(name);
    }
    drawn.clear();
    last = null;
  }
  return { put, handle, legend, scale, place, finish };
}

/** A native field for one key of the state: a choice, or a range. */
function field(kind, { label, shown = String, named = {} }, set) {
  const choice = Boolean(kind.among);
  const { min, max, step } = kind;
  const input = choice ? element("select") : element("input", { type: "range", min, max, step });
  const said = element("span");
  for (const text of kind.among ?? []) input.add(new Option(named[text] ?? text, text));
  input.addEventListener("input", () => set(choice ? input.value : Number(input.value)));
  const show = (value) => {
    input.value = value;
    if (choice) return;
    said.textContent = shown(value);
    input.setAttribute("aria-valuetext", shown(value));
  };
  const long = (kind.among ?? []).some((text) => (named[text] ?? text).length > 14);
  const attributes = long ? { class: "long" } : {};
  return { show, node: element("label", attributes, element("span", {}, label, " ", said), input) };
}

/** Puts an explorer in the place of its picture.
 *
 * title, hint: its name, and one line that says what to try; legend: what the marks are (optional)
 * size: [width, height] of the drawing in its own units
 * state: what each key may be, as `allowed` reads it
 * fields: for some keys a label, and how a value is shown
 * draw(pen, state, set): draws; set({key: value}) changes the state
 * say(state): the result in a sentence
 * table(state): it in numbers, a list of rows (optional)
 * stepped: a key that two buttons move (optional)
 */
function explore(name, { title, legend, hint, size, state: kinds, fields, draw, say, table, stepped }) {
  const figure = document.querySelector(`.tag_explorer-${name} figure`);
  if (!figure) return;
  const start = Object.fromEntries(Object.entries(kinds).map(([key, kind]) => [key, kind.start]));
  const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  drawing.setAttribute("viewBox", `0 0 ${size.join(" ")}`);
  drawing.setAttribute("role", "group");
  drawing.setAttribute("aria-label", `${title}: drawing`);
  const { finish, ...tools } = pen(drawing);
  const rows = element("table", { "aria-label": `${title}: in numbers` });
  const result = element("p", { role: "status" });
  const again = element("button", { type: "button" }, "Start again");
  let state = stateInAddress(name, kinds, location.hash) ?? start;
  let waiting;

  const set = (changes) => {
    const pairs = Object.entries(changes).map(([key, value]) => [key, allowed(value, kinds[key])]);
    state = { ...state, ...Object.fromEntries(pairs) };
    show();
    clearTimeout(waiting); // browsers refuse an address that changes with every pixel
    const address = () => history.replaceState(null, "", addressOfState(name, kinds, state));
    waiting = setTimeout(address, 250);
  };
  const inputs = Object.entries(fields).map(([key, about]) => [
    key, field(kinds[key], about, (value) => set({ [key]: value })),
  ]);
  function show() {
    for (const [key, input] of inputs) input.show(state[key]);
    draw(tools, state, set);
    finish();
    result.textContent = say(state);
    const first = (head) => (head === "" ? element("td") : element("th", { scope: "row" }, head));
    const cells = ([head, ...values]) => element("tr", {}, first(head), ...values.map((v) => element("td", {}, v)));
    if (table) rows.replaceChildren(...table(state).map(cells));
  }
  const follow = () => {
    const found = stateInAddress(name, kinds, location.hash);
    if (!found) return;
    state = found;
    show();
    figure.scrollIntoView({ block: "center" });
  };
  again.addEventListener("click", () => set(start));
  const walks = stepped ? [["Step back", -1], ["Next step", 1]] : [];
  const buttons = walks.map(([words, by]) => {
    const button = element("button", { type: "button" }, words);
    button.addEventListener("click", () => set({ [stepped]: state[stepped] + by }));
    return button;
  });
  addEventListener("hashchange", follow);

  const bar = element("div", { class: "fields" }, ...inputs.map(([, { node }]) => node), again, ...buttons);
  const stage = element("div", { class: "stage" }, drawing, result);
  const side = element("div", { class: "side" }, bar, ...(table ? [rows] : []));
  const hinted = element("p", {}, element("strong", {}, "Try it. "), hint);
  const both = element("div", { class: "both" }, stage, side);
  const named = { class: "explorer", role: "group", "aria-label": title };
  figure.prepend(element("div", named, hinted, both));
  // What stood there was said of the still picture.
  const caption = figure.querySelector(".caption-text") ?? figure.querySelector("figcaption p");
  const called = title.replace(/^Explorer: (.)/, (_, first) => first.toUpperCase());
  if (caption) caption.textContent = legend ? `${called}. ${legend}` : `${called}.`;
  show();
  follow();
}
