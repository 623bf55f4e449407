// The running mean of batch normalization: one number, read in two ways.
"use strict";

/** The running mean after each batch, from 0, when the mean of a new batch has this weight. */
function followed(means, weight) {
  let running = 0;
  return means.map((mean) => (running = (1 - weight) * running + weight * mean));
}

/** After so many batches: the share of the start that is left, and the deviation of the running mean
 * when that of a batch's mean is 1. */
function remembered(weight, count) {
  const weights = Array.from({ length: count }, (_, k) => weight * (1 - weight) ** k);
  return { left: (1 - weight) ** count, noise: Math.hypot(...weights) };
}

explorers.momentum = {
  followed,
  remembered,
  both: (means, weight) => ({ running: followed(means, weight), ...remembered(weight, means.length) }),
};

(() => {
  const MEANS = [
    3.35, 2.12, 3.19, 2.73, 3.31, 3.72, 3.25, 2.86, 3.27, 3.4, 2.91, 3.29, 2.64, 2.65, 3.53,
    2.78, 3.04, 3.37, 2.75, 2.22, 2.98, 3.68, 2.57, 2.7, 3.08, 2.63, 3.44, 2.95, 2.76, 2.17,
    3.68, 3.05, 2.81, 3.19, 2.54, 2.3, 2.81, 2.78, 2.9, 3, 2.98, 2.87, 2.96, 3.12, 3.23,
    2.86, 3.05, 2.97, 2.6, 3.14, 3.06, 2.63, 3.23, 3.21, 3.21, 3.81, 3.1, 2.73, 2.56, 2.85,
  ];
  const [left, right, top, bottom] = [26, 312, 8, 172];
  const toX = across(left, right, 0, MEANS.length);
  const toY = across(bottom, top, 0, 4);
  // PyTorch gives the weight of the new batch; Keras, Flax and ONNX that of the old average.
  const READ = { PyTorch: (momentum) => momentum, "the others": (momentum) => 1 - momentum };

  function draw({ put, handle, legend }, { momentum, seen }, set) {
    put("0", "line", { x1: left, x2: right, y1: toY(0), y2: toY(0), class: "axis" });
    put("3", "line", { x1: left, x2: right, y1: toY(3), y2: toY(3), class: "axis" });
    legend(left, bottom + 18, [["one", "PyTorch"], ["two", "the others"]]);
    put("mean", "text", { x: 4, y: toY(3) + 4 }, "3");
    put("start", "text", { x: 4, y: toY(0) + 4 }, "0");
    put("batches", "text", { x: right, y: bottom + 18, class: "end" }, "batches seen");
    const shown = MEANS.slice(0, seen);
    const dots = shown.map((mean, k) => `M${toX(k + 1)} ${toY(mean)}h0`).join("");
    put("batch means", "path", { d: dots, class: "dots" });
    Object.values(READ).forEach((read, i) => {
      const path = [0, ...followed(shown, read(momentum))];
      const points = path.map((value, k) => `${toX(k)},${toY(value)}`).join(" ");
      put(`path ${i}`, "polyline", { points, class: ["one", "two"][i] });
    });
    const to = (count) => set({ seen: Math.round(count) });
    handle("seen", {
      x: toX(seen), y: toY(0), label: "batches seen", says: String(seen), now: seen, min: 1,
      max: MEANS.length, to: ({ x }) => to(across(0, MEANS.length, left, right)(x)),
      by: (along, up) => to(seen + along + up),
    });
  }

  function table({ momentum, seen }) {
    const names = Object.keys(READ);
    const row = (head, value) => [head, ...names.map((name) => value(READ[name](momentum)))];
    const percent = (share) => `${fixed(100 * share, 0)} %`;
    return [
      ["read by", ...names],
      row("weight of a new batch", (weight) => fixed(weight)),
      row("running mean", (weight) => fixed(followed(MEANS.slice(0, seen), weight).at(-1))),
      row("left of the start", (weight) => percent(remembered(weight, seen).left)),
      row("left of the noise", (weight) => percent(remembered(weight, seen).noise)),
    ];
  }

  function say({ momentum, seen }) {
    const end = (name) => fixed(followed(MEANS.slice(0, seen), READ[name](momentum)).at(-1));
    const batches = seen === 1 ? "1 batch" : `${seen} batches`;
    return `momentum=${fixed(momentum)}: after ${batches} PyTorch (blue) has ${end("PyTorch")}, ` +
      `Keras, Flax and ONNX (orange) have ${end("the others")}.`;
  }

  explore("momentum", {
    title: "Explorer: what momentum means",
    hint: "Find the momentum at which both agree. Then 0.1 and 0.9; then fewer batches.",
    size: [320, 194],
    state: {
      momentum: { start: 0.99, min: 0, max: 1, step: 0.01 },
      seen: { start: 60, min: 1, max: MEANS.length },
    },
    fields: { momentum: { label: "momentum", shown: (value) => `= ${fixed(value)}` } },
    draw,
    say,
    table,
  });
})();
