// Where normalization helps: one column of the map, each norm beside no norm, as seeds were measured.
"use strict";

// Written by tools/trials.py MAP. A column is a task, a net, a depth, inputs and an optimizer; for
// each norm: its best rate, at how many rates nets learn, and for each seed the logarithm of the loss
// and the errors in a hundred.
const CELLS = {};

/** The mean and the ends of its 95 % interval, by Student's t for ten seeds. */
function interval(effects) {
  const mean = effects.reduce((sum, effect) => sum + effect) / effects.length;
  const squares = effects.reduce((sum, effect) => sum + (effect - mean) ** 2, 0);
  const half = 2.262157162798205 * Math.sqrt(squares / (effects.length - 1) / effects.length);
  return [mean - half, mean, mean + half];
}

const OUTCOMES = { loss: [2, Math.LN10], errors: [3, 1] }; // where it stands, and its unit

/** By how much a norm is ahead of none: powers of ten in loss, or fewer errors in a hundred. */
function leads(column, norm, outcome) {
  const [place, unit] = OUTCOMES[outcome];
  const { none, [norm]: other } = CELLS[column];
  return interval(none[place].map((without, seed) => (without - other[place][seed]) / unit));
}

const mean = (values) => values.reduce((sum, value) => sum + value) / values.length;

/** How a cell ended: the geometric mean of the losses, and the mean errors. */
function ends(column, norm) {
  const [rate, learns, losses, errors] = CELLS[column][norm];
  return { rate, learns, loss: Math.exp(mean(losses)), errors: mean(errors) };
}

explorers.norms = {
  both: (column, norm) => ({
    ...ends(column, norm), loss_lead: leads(column, norm, "loss"),
    errors_lead: leads(column, norm, "errors"),
  }),
};

(() => {
  const TASKS = { digits: "digits", fashion: "Fashion-MNIST", text: "text" };
  const NETS = {
    dense: (depth) => `${depth} dense layers`, skip: (depth) => `${depth} dense layers with skips`,
    conv: (depth) => `${depth} convolutions`, pre: (depth) => `${depth} blocks, pre-norm`,
    post: (depth) => `${depth} blocks, post-norm`,
  };
  const OPTIMIZERS = { sgd: "SGD", momentum: "momentum", adam: "Adam" };
  const NORMS = { none: "no norm", centring: "centring only", dividing: "dividing only",
    batch: "batch norm", layer: "layer norm", RMS: "RMSNorm", group: "group norm" };

  function named(column) {
    const [task, net, depth, inputs, optimizer] = column.split(" ");
    const words = [TASKS[task], NETS[net](depth), inputs === "-" ? "" : inputs, OPTIMIZERS[optimizer]];
    return words.filter(Boolean).join(", ");
  }

  const others = (column) => Object.keys(CELLS[column]).filter((norm) => norm !== "none");
  const [left, right, top, step] = [92, 310, 12, 26];

  function draw({ put }, { column, outcome }) {
    const found = others(column).map((norm) => [norm, leads(column, norm, outcome)]);
    const most = Math.max(...found.flatMap(([, three]) => three.map(Math.abs)), 0.1);
    const toX = across(left, right, -1.1 * most, 1.1 * most);
    const bottom = top + step * 6;
    put("zero", "line", { x1: toX(0), x2: toX(0), y1: top - 6, y2: bottom - 6, class: "axis" });
    found.forEach(([norm, [low, mean, high]], k) => {
      const y = top + step * k + 8;
      put(`${norm} name`, "text", { x: 0, y: y + 4 }, NORMS[norm]);
      put(`${norm} ends`, "line", { x1: toX(low), x2: toX(high), y1: y, y2: y, class: "one" });
      put(`${norm} mean`, "circle", { cx: toX(mean), cy: y, r: 5, class: "mark" });
    });
    for (const [side, end] of [[-1, ""], [1, "end"]]) {
      const at = side * most;
      put(`tick ${side}`, "line", { x1: toX(at), x2: toX(at), y1: bottom - 10, y2: bottom - 4, class: "axis" });
      put(`said ${side}`, "text", { x: toX(at), y: bottom + 10, class: "middle" }, fixed(at, most < 2 ? 2 : 0));
    }
    put("nothing", "text", { x: toX(0), y: bottom + 10, class: "middle" }, "0");
    const said = outcome === "loss" ? "powers of ten lower in loss" : "fewer errors in a hundred";
    put("what", "text", { x: right, y: bottom + 28, class: "end" }, `${said} than without a norm`);
  }

  const rounded = (value) => String(Number(value.toPrecision(2)));

  function table({ column }) {
    const row = (norm) => {
      const { rate, learns, loss, errors } = ends(column, norm);
      return [NORMS[norm], rounded(loss), fixed(errors, 1), rounded(rate), `${learns} of 10`];
    };
    return [["", "loss", "errors %", "best rate", "rates that learn"],
      ...["none", ...others(column)].map(row)];
  }

  function say({ column, outcome }) {
    const ahead = others(column).filter((norm) => leads(column, norm, outcome)[0] > 0);
    const behind = others(column).filter((norm) => leads(column, norm, outcome)[2] < 0);
    const list = (norms) => (norms.length ? norms.map((norm) => NORMS[norm]).join(", ") : "none");
    const what = outcome === "loss" ? "loss" : "test errors";
    return `In ${what}, over ten seeds: ahead of no norm: ${list(ahead)}; behind: ${list(behind)}.`;
  }

  explore("norms", {
    title: "Explorer: what a norm buys here",
    hint: "Choose a network of the map. Go from 2 to 20 layers, and from raw to centred inputs.",
    size: [320, 200],
    state: {
      column: { start: "digits dense 6 centred sgd", among: Object.keys(CELLS) },
      outcome: { start: "loss", among: Object.keys(OUTCOMES) },
    },
    fields: {
      column: { label: "network",
        named: Object.fromEntries(Object.keys(CELLS).map((column) => [column, named(column)])) },
      outcome: { label: "judged by", named: { loss: "training loss", errors: "test errors" } },
    },
    draw,
    say,
    table,
  });
})();
