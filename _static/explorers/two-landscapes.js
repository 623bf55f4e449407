// One function, two landscapes: the hidden weights of a network are multiplied by a factor.
"use strict";

(() => {
  const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const column = (rows, j) => rows.map((row) => row[j]);
  const length = (rows) => Math.hypot(...rows.flat());
  const less = (a, b, rate = 1) => a.map((row, i) => row.map((v, j) => v - rate * b[i][j]));

  // A network: inputs x and x², hidden weights w (2 × units), batch norm (gamma = 1, beta = 0 and
  // eps = 0) or none, tanh, output weights v.

  /** What a hidden unit adds up at some places, standardized by the network's own points. */
  function before(places, { x, w }, unit, normed) {
    const sums = (at) => at.map((value) => value * w[0][unit] + value * value * w[1][unit]);
    const middle = normed ? mean(sums(x)) : 0;
    const variance = mean(sums(x).map((sum) => (sum - middle) ** 2));
    const rstd = normed ? 1 / Math.sqrt(variance) : 1;
    return { xhat: sums(places).map((sum) => (sum - middle) * rstd), rstd };
  }

  function outputs(network, normed, places = network.x) {
    const units = network.v.map((_, j) => before(places, network, j, normed).xhat.map(Math.tanh));
    return places.map((_, i) => dot(column(units, i), network.v));
  }

  /** Half the mean squared error, and its gradients in w and v. */
  function loss(network, normed) {
    const { x, target, v } = network;
    const off = outputs(network, normed).map((out, i) => out - target[i]);
    const units = v.map((weight, j) => {
      const { xhat, rstd } = before(x, network, j, normed);
      const hidden = xhat.map(Math.tanh);
      const d = off.map((value, i) => (value / x.length) * weight * (1 - hidden[i] ** 2));
      const along = mean(d.map((value, i) => value * xhat[i]));
      const taken = (i) => (normed ? mean(d) + along * xhat[i] : 0);
      const dx = d.map((value, i) => rstd * (value - taken(i)));
      return [dot(dx, x), dot(dx, x.map((value) => value * value)), dot(off, hidden) / x.length];
    });
    const [first, second, dv] = [0, 1, 2].map((k) => column(units, k));
    return { loss: dot(off, off) / 2 / x.length, dw: [first, second], dv };
  }

  /** What a step of the hidden weights meets, for several rates: the losses, the effective
   * smoothness, and the relative shift of the gradient of v. And what it says at some places. */
  function ray(network, rates, normed, places) {
    const { loss: start, dw, dv } = loss(network, normed);
    const ends = rates.map((rate) => loss({ ...network, w: less(network.w, dw, rate) }, normed));
    const changes = ends.map((end, i) => length(less(end.dw, dw)) / (rates[i] * length(dw)));
    return {
      curve: outputs(network, normed, places),
      losses: [start, ...ends.map((end) => end.loss)],
      size: length(dw),
      smoothness: Math.max(...changes),
      shifts: ends.map((end) => length(less([end.dv], [dv])) / length([dv])),
    };
  }

  explorers["two-landscapes"] = { ray };

  const NETWORK = {
    x: [-1.75, -1.25, -0.75, -0.25, 0.25, 0.75, 1.25, 1.75],
    target: [0.9, 0.1, -0.6, -0.9, -0.5, 0.3, 0.8, 0.7],
    w: [[0.8, -0.6, -0.7], [0.7, -1.9, 0.2]],
    v: [-0.5, -0.6, -2],
  };
  const RATES = Array.from({ length: 160 }, (_, i) => (i + 1) / 20);
  const PLACES = Array.from({ length: 81 }, (_, i) => -2 + i / 20);

  let last = {};

  /** Both networks in a state. Its drawing, sentence and table ask in turn, so it is kept. */
  function both(state) {
    if (last.state === state) return last.rays;
    const { factor, norm, step } = state;
    const rays = [0, factor].map((exponent) => {
      const c = 2 ** exponent;
      const w = NETWORK.w.map((row) => row.map((value) => c * value));
      const rates = RATES.map((value) => value * (step === "as it is" ? 1 : c * c));
      return ray({ ...NETWORK, w }, rates, norm === "batch norm", PLACES);
    });
    last = { state, rays };
    return rays;
  }

  function line(put, name, values, toX, toY) {
    const points = values.map((value, i) => `${toX(i).toFixed(1)},${toY(value).toFixed(1)}`);
    put(name, "polyline", { points: points.join(" "), class: name.split(":")[0] });
  }

  function draw({ put, legend }, state) {
    const networks = both(state);
    const [x, toY] = [across(28, 330, -2, 2), across(128, 18, -3, 3)];
    put("function", "text", { x: 28, y: 12 }, "The function");
    legend(160, 12, [["two dashed", "c = 1"], ["one", `c = ${factor(state.factor)}`]]);
    put("zero", "line", { x1: 28, x2: 330, y1: toY(0), y2: toY(0), class: "axis" });
    NETWORK.x.forEach((value, i) => {
      const at = { cx: x(value), cy: toY(NETWORK.target[i]), r: 3, fill: "currentColor" };
      put(`point ${i}`, "circle", at);
    });
    const top = Math.max(1, ...networks.flatMap(({ losses }) => losses));
    const [rate, high] = [across(28, 330, 0, 160), across(262, 162, 0, top)];
    put("landscape", "text", { x: 28, y: 152 }, "The loss after one step");
    put("axes", "path", { d: "M28 162V262H330", class: "axis", fill: "none" });
    put("most", "text", { x: 24, y: 170, class: "end" }, fixed(top, 1));
    put("none", "text", { x: 24, y: 266, class: "end" }, "0");
    const said = `learning rate, up to 8${state.step === "as it is" ? "" : " c²"}`;
    put("rate", "text", { x: 330, y: 278, class: "end" }, said);
    networks.forEach(({ curve, losses }, k) => {
      const kind = ["two dashed", "one"][k];
      line(put, `${kind}:function`, curve, (i) => x(PLACES[i]), toY);
      line(put, `${kind}:loss`, losses, rate, high);
    });
  }

  const factor = (exponent) => fixed(2 ** exponent);

  function table(state) {
    const networks = both(state);
    const row = (name, f) => [name, ...networks.map((network) => fixed(f(network)))];
    return [
      ["Factor", "1", factor(state.factor)],
      row("Loss", ({ losses }) => losses[0]),
      row("Gradient", ({ size }) => size),
      row("Smoothness β", ({ smoothness }) => smoothness),
      row(`Shift, step ${state.step === "as it is" ? "1" : "c²"}`, ({ shifts }) => shifts[19]),
    ];
  }

  function say(state) {
    const [one, other] = both(state);
    const moved = Math.max(...one.curve.map((value, i) => Math.abs(value - other.curve[i])));
    const apart = Math.max(...one.losses.map((value, i) => Math.abs(value - other.losses[i])));
    const of = (gap) => (gap < 1e-9 ? "the same" : `another, apart by up to ${fixed(gap)}`);
    return `The function is ${of(moved)}; the landscape is ${of(apart)}.`;
  }

  explore("two-landscapes", {
    title: "Explorer: one function, two landscapes",
    hint: "Multiply the weights in front of batch norm. Then take c² times the step.",
    size: [340, 284],
    state: {
      factor: { start: 1, min: -2, max: 2, step: 0.25 },
      norm: { start: "batch norm", among: ["batch norm", "no norm"] },
      step: { start: "as it is", among: ["as it is", "times c²"] },
    },
    fields: {
      factor: { label: "Factor c on the weights", shown: (exponent) => `= ${factor(exponent)}` },
      norm: { label: "Network" },
      step: { label: "Step length" },
    },
    draw,
    say,
    table,
  });
})();
