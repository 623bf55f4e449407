// How a gradient grows or shrinks on its way down a deep stack, before training.
"use strict";

/** By how much a layer with batch norm multiplies the squared gradient: Yang et al. (2019). */
function batchGrowth(activation, b) {
  if (activation === "linear") return (b - 2) / (b - 3);
  const c = -1 / (b - 1);
  const slope = 1 - Math.acos(c) / Math.PI;
  const j = Math.sqrt(1 - c * c) / Math.PI + slope * c;
  return (slope + b - 1) / ((b - 3) * (1 - j)) - 1 / (b - 3);
}

/** The factor of a layer for each norm; weights has the factor 1 where it suits the activation. */
function growth(activation, b, weights) {
  return { none: weights ** 2, batch: batchGrowth(activation, b), layer: 1 };
}

/** The gradient so many layers below the top, in powers of ten. */
const decades = (factor, layers) => (layers * Math.log10(factor)) / 2;

explorers.depth = {
  both: (activation, b, weights, layers) => {
    const factors = growth(activation, b, weights);
    const bottom = Object.values(factors).map((factor) => decades(factor, layers));
    return { ...factors, bottom };
  },
};

(() => {
  const [left, right, top, bottom] = [34, 296, 26, 180];
  const toX = across(left, right, 0, 100);
  const toY = across(bottom, top, -12, 12);
  const LOOKS = { none: "two", batch: "one", layer: "three" };
  const NAMES = { none: "no norm", batch: "batch norm", layer: "layer norm" };
  const inside = (value) => Math.min(12, Math.max(-12, value));
  const factors = ({ activation, size, weights }) => growth(activation, size, 2 ** weights);

  function draw({ put, handle, scale, legend }, state, set) {
    legend(2, 12, Object.keys(NAMES).map((norm) => [LOOKS[norm], NAMES[norm]]));
    for (const value of [-12, -6, 0, 6, 12]) {
      put(`power ${value}`, "text", { x: left - 8, y: toY(value) + 4, class: "end" }, fixed(value, 0));
    }
    put("zero", "line", { x1: left, x2: right, y1: toY(0), y2: toY(0), class: "axis" });
    scale(toX, bottom, [0, 100], [0, 50, 100]);
    put("what", "text", { x: right, y: bottom + 34, class: "end" }, "layers below the top");
    for (const [norm, factor] of Object.entries(factors(state)).reverse()) {
      const one = decades(factor, 1);
      const last = Math.min(state.layers, 12 / Math.abs(one || 1e-9));
      put(norm, "line", {
        x1: toX(0), y1: toY(0), x2: toX(last), y2: toY(one * last), class: LOOKS[norm],
      });
    }
    handle("layers", {
      x: toX(state.layers), y: toY(inside(decades(factors(state).batch, state.layers))),
      label: "layers", says: String(state.layers), now: state.layers, min: 1, max: 100,
      to: ({ x }) => set({ layers: Math.round(across(0, 100, left, right)(x)) }),
      by: (along, up) => set({ layers: state.layers + along + up }),
    });
  }

  function table(state) {
    const row = ([norm, factor]) =>
      [NAMES[norm], fixed(factor), fixed(decades(factor, state.layers))];
    return [["", "squared, a layer", "powers of ten"], ...Object.entries(factors(state)).map(row)];
  }

  function say(state) {
    const found = factors(state);
    const arrives = (norm) => {
      const powers = decades(found[norm], state.layers);
      if (Math.abs(powers) < 0.05) return "as it was";
      return `${fixed(Math.abs(powers), 1)} powers of ten ${powers > 0 ? "larger" : "smaller"}`;
    };
    return `After ${state.layers} layers the gradient is, without a norm, ${arrives("none")}; ` +
      `with batch norm ${arrives("batch")}, whatever the weights; with layer norm about as it was.`;
  }

  explore("depth", {
    title: "Explorer: the gradient on its way down",
    hint: "Take weights of twice the size: which lines move? Then choose a batch of 6.",
    size: [320, 222],
    state: {
      activation: { start: "ReLU", among: ["ReLU", "linear"] },
      weights: { start: 0.1, min: -1, max: 1, step: 0.05 },
      size: { start: 32, min: 4, max: 64, step: 1 },
      layers: { start: 99, min: 1, max: 100 },
    },
    fields: {
      activation: { label: "activation", named: { linear: "none" } },
      weights: { label: "weights", shown: (value) => `× ${fixed(2 ** value)}` },
      size: { label: "batch", shown: (value) => `of ${value}` },
    },
    draw,
    say,
    table,
  });
})();
