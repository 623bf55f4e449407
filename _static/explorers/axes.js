// Which entries of a tensor (N, C, H, W) share a mean and a deviation.
"use strict";

/** The axes that a layer takes its statistics over, in a framework whose last axis is `last`. */
const OVER = {
  batch: () => ({ over: "NHW" }),
  layer: () => ({ over: "CHW" }),
  last: (last) => ({ over: last }),
  group: () => ({ over: "CHW", groups: 2 }),
  instance: () => ({ over: "HW" }),
  rms: (last) => ({ over: last, center: false }),
};
const PYTORCH = {
  order: "NCHW",
  eps: { batch: 1e-5, layer: 1e-5, last: 1e-5, group: 1e-5, instance: 1e-5, rms: 1.19e-7 },
  call: {
    batch: "nn.BatchNorm2d(4)", layer: "nn.LayerNorm((4, 2, 2))", last: "nn.LayerNorm(2)",
    group: "nn.GroupNorm(2, 4)", instance: "nn.InstanceNorm2d(4)", rms: "nn.RMSNorm(2)",
  },
};
const KERAS = {
  order: "NHWC",
  eps: { batch: 1e-3, layer: 1e-3, last: 1e-3, group: 1e-3, instance: 1e-3, rms: 1e-6 },
  call: {
    batch: "BatchNormalization()", layer: "LayerNormalization(axis=(1, 2, 3))",
    last: "LayerNormalization()", group: "GroupNormalization(groups=2)",
    instance: "GroupNormalization(groups=-1)", rms: "RMSNormalization()",
  },
};
const FLAX = {
  order: "NHWC",
  eps: { batch: 1e-5, layer: 1e-6, last: 1e-6, group: 1e-6, instance: 1e-6, rms: 1e-6 },
  call: {
    batch: "nnx.BatchNorm(4, …)", layer: "nnx.LayerNorm(4, reduction_axes=(1, 2, 3), …)",
    last: "nnx.LayerNorm(4, …)", group: "nnx.GroupNorm(4, num_groups=2, …)",
    instance: "nnx.InstanceNorm(4, …)", rms: "nnx.RMSNorm(4, …)",
  },
};
const FRAMEWORKS = { PyTorch: PYTORCH, Keras: KERAS, Flax: FLAX };

/** Where each entry of a tensor of this shape lies, in the order (N, C, H, W). */
function places([N, C, H, W]) {
  return Array.from({ length: N * C * H * W }, (_, i) => ({
    N: Math.floor(i / (C * H * W)), C: Math.floor(i / (H * W)) % C, H: Math.floor(i / W) % H, W: i % W,
  }));
}

/** For every entry: the entries that share its statistics, these, and what the layer returns. */
function normalized(x, shape, { over, groups = 1, center = true }, eps) {
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const block = (at) => (over.includes("C") ? Math.floor((at.C * groups) / shape[1]) : 0);
  const apart = (at) => ["N", "C", "H", "W"].map((axis) => (over.includes(axis) ? "" : at[axis]));
  const owner = places(shape).map((at) => [block(at), ...apart(at)].join());
  const found = new Map();
  for (const name of new Set(owner)) {
    const shared = [...x.keys()].filter((i) => owner[i] === name);
    const location = center ? mean(shared.map((i) => x[i])) : 0;
    const square = mean(shared.map((i) => (x[i] - location) ** 2));
    found.set(name, { shared, mean: location, rstd: 1 / Math.sqrt(square + eps) });
  }
  const each = owner.map((name) => found.get(name));
  return {
    shared: each.map((one) => one.shared),
    mean: each.map((one) => one.mean),
    rstd: each.map((one) => one.rstd),
    y: each.map((one, i) => (x[i] - one.mean) * one.rstd),
  };
}

/** What a framework's call computes. */
function called(x, shape, layer, framework) {
  const { order, eps } = FRAMEWORKS[framework];
  return normalized(x, shape, OVER[layer](order[3]), eps[layer]);
}

explorers.axes = { normalized, called, OVER, FRAMEWORKS };

(() => {
  const SHAPE = [3, 4, 2, 2];
  const AT = places(SHAPE);
  const X = [
    0.9, 1.6, 0.4, 1.1, -2.1, -0.8, -1.5, -3.2, 3.8, 2.2, 4.1, 2.9, 0.2, -0.3, 0.6, -0.1,
    1.8, 2.7, 1.2, 2.1, -0.4, 0.7, -1.9, 0.3, 5.2, 3.1, 4.4, 6.3, -0.7, 0.1, -0.2, -0.9,
    -0.6, 0.5, 0.1, -1.2, -3.4, -2.6, -4.1, -1.8, 2.4, 0.8, 1.7, 3.3, 0.5, 0.9, -0.4, 0.3,
  ];
  const [WIDE, HIGH, GAP, LEFT, TOP] = [34, 26, 7, 15, 18];
  const named = {
    batch: "batch norm", layer: "layer norm, whole sample", last: "layer norm, last axis",
    group: "group norm, 2 groups", instance: "instance norm", rms: "RMSNorm, last axis",
  };
  const left = (at) => LEFT + at.C * (2 * WIDE + GAP) + at.W * WIDE;
  const top = (at) => TOP + at.N * (2 * HIGH + GAP) + at.H * HIGH;

  /** The entry at a point of the drawing, if there is one. */
  function entryAt({ x, y }) {
    const within = (at) => x >= left(at) && x < left(at) + WIDE && y >= top(at) && y < top(at) + HIGH;
    return AT.findIndex(within);
  }

  function draw({ put, place }, { layer, framework, values, entry }, set) {
    const { shared, y } = called(X, SHAPE, layer, framework);
    const shown = values === "before" ? X : y;
    for (const k of [0, 1, 2, 3]) {
      put(`channel ${k}`, "text", { x: left({ C: k, W: 0 }), y: TOP - 6 }, `channel ${k + 1}`);
    }
    for (const n of [0, 1, 2]) {
      const middle = top({ N: n, H: 1 });
      const turned = `rotate(-90 10 ${middle})`;
      put(`sample ${n}`, "text", { x: 10, y: middle, transform: turned, class: "middle" }, `sample ${n + 1}`);
    }
    AT.forEach((at, i) => {
      const kind = shared[entry].includes(i) ? "entry shared" : "entry";
      put(`entry ${i}`, "rect", { x: left(at), y: top(at), width: WIDE, height: HIGH, class: kind });
      const middle = { x: left(at) + WIDE / 2, y: top(at) + HIGH / 2 + 4, class: "middle" };
      put(`value ${i}`, "text", middle, fixed(shown[i], 1));
    });
    const at = AT[entry];
    put("here", "rect", { x: left(at), y: top(at), width: WIDE, height: HIGH, class: "two" });
    const all = { x: 0, y: 0, width: 320, height: TOP + 3 * (2 * HIGH + GAP), class: "catch" };
    const choose = (event) => {
      const found = entryAt(place(event));
      if (found >= 0 && (event.type === "pointerdown" || event.pointerType === "mouse")) set({ entry: found });
    };
    Object.assign(put("all", "rect", all), { onpointerdown: choose, onpointermove: choose });
  }

  const where = ({ N, C, H, W }) => `sample ${N + 1}, channel ${C + 1}, row ${H + 1}, column ${W + 1}`;

  function table({ layer, framework, entry }) {
    const { mean, rstd } = called(X, SHAPE, layer, framework);
    const { order, call, eps } = FRAMEWORKS[framework];
    const { over, groups } = OVER[layer](order[3]);
    const axes = [...order].filter((axis) => over.includes(axis));
    const halves = axes.map((axis) => (axis === "C" && groups ? "half of C" : axis)).join(", ");
    return [
      [framework, call[layer]], ["over", `${halves} of (${[...order].join(", ")})`],
      ["ε", eps[layer].toExponential()],
      ["μ, r", `${layer === "rms" ? "none" : fixed(mean[entry])}, ${fixed(rstd[entry])}`],
    ];
  }

  function say({ layer, framework, entry }) {
    const { shared, y } = called(X, SHAPE, layer, framework);
    const count = shared[entry].length;
    return `${count} entries share their statistics with ${where(AT[entry])}: ` +
      `${fixed(X[entry], 1)} becomes ${fixed(y[entry])}.`;
  }

  explore("axes", {
    title: "Explorer: which entries share statistics",
    hint: "Point at an entry, then change the layer. For “last axis”, change the framework.",
    size: [320, 196],
    state: {
      layer: { start: "group", among: Object.keys(OVER) },
      framework: { start: "PyTorch", among: Object.keys(FRAMEWORKS) },
      values: { start: "before", among: ["before", "after"] },
      entry: { start: 25, min: 0, max: X.length - 1, step: 1 },
    },
    fields: {
      layer: { label: "Layer", named },
      framework: { label: "Framework" },
      values: { label: "Values" },
      entry: { label: "Entry", shown: (i) => `(${Object.values(AT[i]).map((k) => k + 1).join(", ")})` },
    },
    draw,
    say,
    table,
  });
})();
