// The graph of a norm with numbers in it: forward, and back along each way.
"use strict";

// Which arrows a norm has beside x → x̂: by way of the mean, and by way of the variance.
const HAS = {
  batch: { mean: true, square: true }, layer: { mean: true, square: true },
  group: { mean: true, square: true }, instance: { mean: true, square: true },
  RMS: { mean: false, square: true }, "mean-only": { mean: true, square: false },
};

/** A norm of these numbers, ε = 0 and γ = 1, and the gradient d along each way back to x. */
function ways(x, d, norm) {
  const { mean, square } = HAS[norm];
  const m = x.length;
  const mu = mean ? average(x) : 0;
  const c = x.map((value) => value - mu);
  const variance = square ? average(c.map((value) => value * value)) : 1;
  const r = 1 / Math.sqrt(variance);
  const arrives = (values) => d.reduce((sum, value, i) => sum + value * values[i], 0);
  const toSquare = c.map((value) => (square ? (2 * value) / m : 0)); // the arrow from each x
  const toMean = x.map(() => (mean ? 1 / m : 0));
  const dvar = square ? arrives(c.map((value) => (-(r ** 3) * value) / 2)) : 0;
  const dmu = mean ? arrives(x.map(() => -r)) : 0;
  const along = {
    direct: d.map((value) => r * value), square: toSquare.map((arrow) => arrow * dvar),
    mean: toMean.map((arrow) => arrow * dmu),
  };
  const dx = x.map((_, k) => along.direct[k] + along.square[k] + along.mean[k]);
  const arrows = [1, Number(square), Number(mean)];
  return { mu, variance, r, xhat: c.map((v) => v * r), toSquare, toMean, dvar, dmu, ...along, dx, arrows };
}

explorers["three-ways"] = { ways };

(() => {
  const X = [0, 6, 6, 8];
  const LAST = 8;
  const NAMES = { batch: "batch norm", layer: "layer norm", group: "group norm",
    instance: "instance norm", RMS: "RMSNorm", "mean-only": "mean-only batch norm" };
  // The entries of a tensor of 4 samples and 4 channels that the numbers are: first row and column,
  // and how many of both.
  const OVER = { batch: [0, 1, 4, 1], layer: [1, 0, 1, 4], group: [1, 0, 1, 2],
    instance: [1, 1, 1, 1], RMS: [1, 0, 1, 4], "mean-only": [0, 1, 4, 1] };
  const WHOSE = { batch: "4 samples of a channel", layer: "4 channels of a sample",
    group: "2 channels, 2 positions each", instance: "4 positions of a channel",
    RMS: "4 channels of a sample", "mean-only": "4 samples of a channel" };
  const [left, right, middle, high, low] = [34, 250, 136, 34, 212];
  const row = (k) => 76 + 32 * k;
  const short = (value) => fixed(value, 3).replace(/\.?0+$/, "");
  const found = ({ norm, way }) => ways(X, X.map((_, i) => Number(i === Number(way.at(-1)) - 1)), norm);

  function draw({ put }, state) {
    const { step, entry, norm } = state;
    const all = found(state);
    const k = Number(entry) - 1;
    const { mean, square } = HAS[norm];
    const at = [row(k), row(Number(state.way.at(-1)) - 1)];
    const arrow = (name, shown, kind, [x1, y1, x2, y2], active) =>
      shown && put(name, "line", { x1, y1, x2, y2, class: active ? kind : "axis" });
    const said = (name, shown, x, y, text, kind = "middle") =>
      shown && put(name, "text", { x, y, class: `${kind} over` }, text);
    arrow("x to square", square, "two", [left + 14, at[0], middle - 14, high], step === 2 || step >= 6);
    arrow("square to xhat", square, "two", [middle + 14, high, right - 18, at[1]], step === 3 || step >= 6);
    arrow("x to mean", mean, "three", [left + 14, at[0], middle - 14, low], step === 1 || step >= 7);
    arrow("mean to xhat", mean, "three", [middle + 14, low, right - 18, at[1]], step === 3 || step >= 7);
    arrow("mean to square", mean && square, "axis dashed", [middle, low - 14, middle, high + 14], false);
    arrow("direct", true, "one", [left + 14, row(k), right - 18, row(k)], step === 3 || step >= 5);
    X.forEach((value, i) => {
      said(`x ${i}`, true, left, row(i) + 4, String(value));
      put(`x box ${i}`, "rect", {
        x: left - 14, y: row(i) - 12, width: 28, height: 24, class: `entry${i === k ? " shared" : ""}`,
      });
      put(`y box ${i}`, "rect", { x: right - 18, y: row(i) - 12, width: 52, height: 24, class: "entry" });
      said(`y ${i}`, step >= 3, right + 8, row(i) + 4, short(step === 4 ? found(state).direct[i] / all.r : all.xhat[i]));
    });
    said("x", true, left, 56, "x");
    said("xhat", true, right + 8, 56, step === 4 ? "d" : "x̂");
    const node = (name, letter, y, value, since) => {
      put(`${name} node`, "circle", { cx: middle, cy: y, r: 14, class: "entry" });
      said(`${name} letter`, true, middle, y + 4, letter);
      said(`${name} value`, step >= since, middle - 20, y + (y < 100 ? -4 : 12), `${letter} = ${short(value)}`, "end");
    };
    if (square) node("square", norm === "RMS" ? "q" : "σ²", high, all.variance, 2);
    if (mean) node("mean", "μ", low, all.mu, 1);
    said("on direct", step >= 5, 172, row(k) + 14, `× ${short(all.r)}`);
    said("on square", square && step >= 6, 92, (at[0] + high) / 2 - 10, `× ${short(all.toSquare[k])}`, "end");
    said("to square", square && step >= 6, middle + 20, high - 4, `arrives: ${short(all.dvar)}`, "");
    said("on mean", mean && step >= 7, 92, (at[0] + low) / 2 + 2, `× ${short(all.toMean[k])}`, "");
    said("to mean", mean && step >= 7, middle + 20, low + 12, `arrives: ${short(all.dmu)}`, "");
    const [top, side, rows, columns] = OVER[norm];
    for (let i = 0; i < 16; i += 1) {
      const [y, x] = [Math.floor(i / 4), i % 4];
      const one = y >= top && y < top + rows && x >= side && x < side + columns;
      put(`entry ${i}`, "rect", {
        x: 20 + 12 * x, y: 240 + 12 * y, width: 12, height: 12, class: `entry${one ? " shared" : ""}`,
      });
    }
    put("whose", "text", { x: 80, y: 260 }, WHOSE[norm]);
    put("share", "text", { x: 80, y: 276 }, "share statistics (rows: samples)");
  }

  function table(state) {
    const all = found(state);
    const line = (head, values, since) =>
      [head, ...values.map((value) => (state.step >= since ? fixed(value, 3) : "·"))];
    return [
      ["", "x₁", "x₂", "x₃", "x₄"], line("direct", all.direct, 5), line(state.norm === "RMS" ? "by q" : "by σ²", all.square, 6),
      line("by μ", all.mean, 7), line("dx", all.dx, LAST),
    ];
  }

  function say(state) {
    const { step, norm, entry } = state;
    const all = found(state);
    const k = Number(entry) - 1;
    const { mean, square } = HAS[norm];
    const which = `x${"₁₂₃₄"[k]}`;
    const letter = norm === "RMS" ? "q" : "σ²";
    const lines = [
      `Four numbers go into ${NAMES[norm]}.`,
      mean ? `The mean is μ = ${short(all.mu)}.` : "RMSNorm has no mean: these arrows are not there.",
      square ? `The mean square${mean ? " of x − μ" : ""} is ${letter} = ${short(all.variance)}.`
        : "Nothing is divided: these arrows are not there.",
      `x̂ is ${mean ? "x − μ" : "x"}${square ? `, times r = 1/√${letter} = ${short(all.r)}` : ""}.`,
      "Back: the loss hands down d, which is 1 for one output and 0 for the others.",
      `Directly: ${which} gets its own d times ${short(all.r)}, ${short(all.direct[k])}.`,
      square ? `By way of ${letter}: ${short(all.dvar)} arrives there from all outputs; times ` +
        `${short(all.toSquare[k])} it is ${short(all.square[k])} for ${which}.`
        : "No way leads through a variance.",
      mean ? `By way of μ: ${short(all.dmu)} arrives there from all outputs; times ` +
        `${short(all.toMean[k])} it is ${short(all.mean[k])} for ${which}.` : "No way leads through a mean.",
      `Added up, ${which} gets ${short(all.direct[k])}${square ? ` + (${short(all.square[k])})` : ""}` +
        `${mean ? ` + (${short(all.mean[k])})` : ""} = ${short(all.dx[k])}.`,
    ];
    return `Step ${step} of ${LAST}. ${lines[step]}`;
  }

  explore("three-ways", {
    title: "Explorer: the graph of a norm, step by step",
    hint: "Step back to the beginning, then forward. Which way is gone with RMSNorm?",
    size: [320, 292],
    state: {
      norm: { start: "batch", among: Object.keys(HAS) },
      entry: { start: "1", among: ["1", "2", "3", "4"] },
      way: { start: "y1", among: ["y1", "y2", "y3", "y4"] },
      step: { start: LAST, min: 0, max: LAST, step: 1 },
    },
    fields: {
      norm: { label: "norm", named: NAMES },
      entry: { label: "gradient of", named: { 1: "x₁", 2: "x₂", 3: "x₃", 4: "x₄" } },
      way: { label: "loss is", named: { y1: "y₁", y2: "y₂", y3: "y₃", y4: "y₄" } },
      step: { label: "step", shown: (value) => `${value} of ${LAST}` },
    },
    stepped: "step",
    draw,
    say,
    table,
  });
})();
