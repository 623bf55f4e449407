// What the backward pass of batch normalization leaves of an upstream gradient.
"use strict";

/** The parts of d, the gradient with respect to xhat, as `standardize_backward` takes them apart. */
function projected(x, d, eps) {
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const c = x.map((value) => value - mean(x));
  const variance = mean(c.map((value) => value * value));
  const rstd = 1 / Math.sqrt(variance + eps);
  const xhat = c.map((value) => value * rstd);
  const height = mean(d);
  const slope = mean(d.map((value, k) => value * xhat[k]));
  const left = d.map((value, k) => value - height - slope * xhat[k]);
  return { xhat, rstd, variance, height, slope, left, dx: left.map((value) => rstd * value) };
}

explorers.projector = { projected };

(() => {
  const BATCH = [0, 6, 6, 8];
  const [left, right, top, bottom] = [12, 308, 8, 204];
  const [toX, toY] = [across(left, right, -1.8, 1.8), across(bottom, top, -2, 2)];
  const back = across(-2, 2, bottom, top);
  const length = (values) => Math.hypot(...values);

  function found({ count, d, share }) {
    const x = BATCH.slice(0, Number(count));
    const upstream = d.slice(0, x.length);
    const { variance } = projected(x, upstream, 0);
    return { x, d: upstream, ...projected(x, upstream, share * variance) };
  }

  function draw({ put, handle }, state, set) {
    const { xhat, d, height, slope } = found(state);
    put("zero", "line", { x1: left, x2: right, y1: toY(0), y2: toY(0), class: "axis" });
    put("up", "line", { x1: toX(0), x2: toX(0), y1: top, y2: bottom, class: "axis" });
    put("x name", "text", { x: right - 8, y: toY(0) + 16 }, "x̂");
    put("d name", "text", { x: toX(0) + 6, y: top + 8 }, "d");
    const line = (name, kind, rise) =>
      put(name, "line", {
        x1: left, x2: right, class: kind,
        y1: toY(height - 1.8 * rise), y2: toY(height + 1.8 * rise),
      });
    line("mean", "two dashed", 0);
    line("removed", "two", slope);
    d.forEach((value, k) => {
      const x = toX(xhat[k]);
      const at = toY(height + slope * xhat[k]);
      put(`left ${k}`, "line", { x1: x, x2: x, y1: at, y2: toY(value), class: "three" });
    });
    d.forEach((value, k) => {
      const drag = (to) => set({ d: state.d.map((one, j) => (j === k ? to : one)) });
      const round = (to) => Math.round(to * 20) / 20;
      handle(`dot ${k}`, {
        x: toX(xhat[k]), y: toY(value), now: value, min: -2, max: 2,
        label: `d of number ${k + 1}`, says: fixed(value),
        to: (point) => drag(round(back(point.y))),
        by: (right, up) => drag(round(value + 0.1 * (right + up))),
      });
    });
  }

  function table(state) {
    const { x, d, xhat, height, slope, left, dx } = found(state);
    const row = (name, values) => [name, ...values.map((value) => fixed(value))];
    return [
      ["x", ...x.map(String)], row("x̂", xhat), row("d", d), row("along 1", d.map(() => height)),
      row("along x̂", xhat.map((value) => slope * value)), row("left", left), row("dx", dx),
    ];
  }

  function say(state) {
    const { d, left, xhat } = found(state);
    const rest = length(left);
    const parts = `The length of d is ${fixed(length(d))}; what is left has ${fixed(rest)}.`;
    if (rest < 0.005) {
      const why = xhat.length === 2 ? "two numbers always lie on a line" : "the dots lie on a line";
      return `${parts} Nothing passes: ${why}.`;
    }
    const back = fixed((100 * state.share) / (1 + state.share), 0);
    return state.share ? `${parts} ε gives back ${back} % of the part along x̂.` : parts;
  }

  explore("projector", {
    title: "Explorer: what is left of a gradient",
    legend: "Dots: d over x̂. Dashed: the mean, which is taken off. Solid: the line, which is taken off, too.",
    hint: "Drag the dots onto a line, any line. Raise ε. Take two numbers.",
    size: [320, 212],
    state: {
      count: { start: "4", among: ["4", "3", "2"] },
      share: { start: 0, min: 0, max: 3, step: 0.1 },
      d: { start: [1, 0, 0, 0], min: -2, max: 2 },
    },
    fields: {
      count: { label: "Numbers" },
      share: { label: "ε", shown: (value) => `= ${fixed(value, 1)} σ²` },
    },
    draw,
    say,
    table,
  });
})();
