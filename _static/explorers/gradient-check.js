// A gradient check of batch normalization: a planted error, a witness, a step h, an upstream.
"use strict";

(() => {
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const column = (rows, j) => rows.map((row) => row[j]);
  const each = (rows, f) => rows.map((row, i) => row.map((value, j) => f(value, i, j)));
  const largest = (rows) => Math.max(...rows.flat().map(Math.abs));

  // One entry of dx: the shipped formula, and the errors that are planted in it.
  const shipped = (s) => s.rstd * (s.d - s.mean - s.xhat * s.along);
  const BESSEL = "ddof = 1, forward and backward";
  const PLANTS = {
    none: shipped,
    "dx without dxhat itself": (s) => s.rstd * (-s.mean - s.xhat * s.along),
    "dx without the mean term": (s) => s.rstd * (s.d - s.xhat * s.along),
    "dx without the variance term": (s) => s.rstd * (s.d - s.mean),
    "dx without rstd": (s) => s.d - s.mean - s.xhat * s.along,
    "variance term with a plus": (s) => s.rstd * (s.d - s.mean + s.xhat * s.along),
    "mean over the wrong axis": (s) => s.rstd * (s.d - s.across - s.xhat * s.along),
    "gamma forgotten in dx": (s) => shipped(s) / s.gamma,
    "dx with the wrong sign": (s) => -shipped(s),
    "dx times 2.001": (s) => 2.001 * shipped(s),
    "dx times 1.000000001": (s) => 1.000000001 * shipped(s),
    "one wrong entry of dx": (s) => (s.last ? 1.01 : 1) * shipped(s),
    [BESSEL]: (s) => s.rstd * (s.d - s.mean - ((s.xhat * s.n) / (s.n - 1)) * s.along),
  };

  /** (a + ib)^p: the complex step needs it. */
  function power([a, b], p) {
    const [size, angle] = [Math.hypot(a, b) ** p, Math.atan2(b, a) * p];
    return [size * Math.cos(angle), size * Math.sin(angle)];
  }

  /** Batch normalization of x + i im: y and its imaginary part, xhat and rstd. */
  function forward({ x, im = each(x, () => 0), gamma, beta, eps }, error) {
    const columns = gamma.map((_, j) => {
      const [a, b] = [x, im].map((rows) => {
        const middle = mean(column(rows, j));
        return rows.map((row) => row[j] - middle);
      });
      const squares = a.map((v, i) => [v * v - b[i] * b[i], 2 * v * b[i]]);
      const bessel = error === BESSEL ? x.length / (x.length - 1) : 1;
      const variance = [0, 1].map((part) => bessel * mean(column(squares, part)));
      const [r, s] = power([variance[0] + eps, variance[1]], -0.5);
      return { r, xhat: a.map((v, i) => v * r - b[i] * s), im: a.map((v, i) => v * s + b[i] * r) };
    });
    return {
      y: each(x, (_, i, j) => gamma[j] * columns[j].xhat[i] + beta[j]),
      im: each(x, (_, i, j) => gamma[j] * columns[j].im[i]),
      xhat: each(x, (_, i, j) => columns[j].xhat[i]),
      rstd: columns.map(({ r }) => r),
    };
  }

  function backward(problem, error) {
    const { gamma, dy } = problem;
    const { xhat, rstd } = forward(problem, error);
    const d = each(dy, (v, _, j) => gamma[j] * v);
    return each(d, (v, i, j) => PLANTS[error]({
      d: v, gamma: gamma[j], rstd: rstd[j], xhat: xhat[i][j], n: d.length,
      mean: mean(column(d, j)), across: mean(d[i]),
      along: mean(d.map((row, k) => row[j] * xhat[k][j])),
      last: i === d.length - 1 && j === gamma.length - 1,
    }));
  }

  /** y once more, from the definition. */
  function definition({ x, gamma, beta, eps }) {
    return each(x, (v, _, j) => {
      const middle = mean(column(x, j));
      const variance = mean(x.map((row) => (row[j] - middle) ** 2));
      return (gamma[j] * (v - middle)) / Math.sqrt(variance + eps) + beta[j];
    });
  }

  /** dx as shipped, and dx from the loss when one entry of x after the other is moved. */
  const derivative = (quotient) => (problem, error, h) => {
    const here = forward(problem, error).y;
    const total = (rows) => rows.flat().reduce((sum, value) => sum + value, 0);
    const loss = (row, at) => (real, imaginary) => {
      const put = (v, i, j, by) => (i === row && j === at ? v + by : v);
      const x = each(problem.x, (v, i, j) => put(v, i, j, real));
      const im = each(problem.x, (_, i, j) => put(0, i, j, imaginary));
      const there = forward({ ...problem, x, im }, error);
      const change = each(problem.dy, (v, i, j) => v * (there.y[i][j] - here[i][j]));
      return [total(change), total(each(problem.dy, (v, i, j) => v * there.im[i][j]))];
    };
    return [backward(problem, error), each(here, (_, i, j) => quotient(loss(i, j), h))];
  };

  // Each witness compares two arrays, which must agree to within its bound.
  const WITNESSES = {
    "forward difference": { bound: 1e-7, sides: derivative((f, h) => f(h, 0)[0] / h) },
    "central difference": {
      bound: 1e-7,
      sides: derivative((f, h) => (f(h, 0)[0] - f(-h, 0)[0]) / (2 * h)),
    },
    "complex step": { bound: 1e-10, sides: derivative((f, h) => f(0, h)[1] / h) },
    "the forward alone": {
      bound: 1e-10,
      sides: (problem, error) => [forward(problem, error).y, definition(problem)],
    },
  };

  /** Both sides; how far they are apart, relative to the terms that cancel; whether both are 0. */
  function check(problem, { error, witness, h }) {
    const { bound, sides } = WITNESSES[witness];
    const [ours, theirs] = sides(problem, error, h);
    const { rstd } = forward(problem, "none");
    const terms = each(problem.dy, (v, _, j) => v * problem.gamma[j] * rstd[j]);
    const scale = largest(witness === "the forward alone" ? theirs : terms);
    const apart = largest(each(ours, (v, i, j) => v - theirs[i][j])) / scale;
    return { ours, theirs, apart, bound, empty: largest([...ours, ...theirs]) <= bound * scale };
  }

  explorers["gradient-check"] = { check };

  // Six handwritten digits, three of their pixels.
  const grey = [[5, 3, 12], [6, 8, 16], [7, 7, 16], [12, 13, 6], [9, 16, 14], [10, 7, 8]];
  const random = [[1.2, -0.7, -0.8], [-0.4, 0.3, -0.3], [-1.1, 0.1, 0.1]];
  random.push([0.2, -1.7, -0.4], [-0.8, -0.8, 1.2], [1, 1.7, 1.5]);
  const UPSTREAM = { random, ones: each(random, () => 1) };
  const layer = { gamma: [1.3, 1.1, 0.5], beta: [1.1, 0.7, -0.1], eps: 1e-5 };
  const known = new Map(); // a curve takes some time, and is asked for at every move

  function at({ error, witness, upstream }, exponent) {
    const key = [error, witness, upstream, exponent].join();
    const problem = { ...layer, x: each(grey, (v) => v / 16), dy: UPSTREAM[upstream] };
    const found = known.get(key) ?? check(problem, { error, witness, h: 10 ** exponent });
    known.set(key, found);
    return found;
  }

  const [toX, toY] = [across(48, 332, -16, 0), across(214, 10, -17, 1)];
  const height = ({ apart }) => toY(Math.min(1, Math.max(-17, Math.log10(apart))));
  const grid = Array.from({ length: 33 }, (_, i) => -16 + i / 2);

  function draw({ put, legend }, state) {
    for (const n of [-16, -12, -8, -4, 0]) {
      put(`x ${n}`, "text", { x: toX(n), y: 231, class: "middle" }, n ? `1e${n}` : "1");
      put(`y ${n}`, "text", { x: 42, y: toY(n) + 4, class: "end" }, n ? `1e${n}` : "1");
    }
    put("x name", "text", { x: 332, y: 249, class: "end" }, "step h");
    legend(48, 249, [["one dashed", "shipped"], ["two", "with the error"]]);
    put("frame", "path", { d: "M48 10V214H332", class: "axis", fill: "none" });
    const bound = toY(Math.log10(WITNESSES[state.witness].bound));
    put("bound", "line", { x1: 48, x2: 332, y1: bound, y2: bound, class: "axis dashed" });
    put("bound name", "text", { x: 52, y: bound - 4 }, "bound");
    const x = toX(state.h);
    put("h", "line", { x1: x, x2: x, y1: 10, y2: 214, class: "axis" });
    for (const [kind, error] of [["one dashed", "none"], ["two", state.error]]) {
      const points = grid.map((n) => `${toX(n)},${height(at({ ...state, error }, n))}`);
      put(kind, "polyline", { points: points.join(" "), class: kind });
      const y = height(at({ ...state, error }, state.h));
      put(`${kind} dot`, "circle", { cx: x, cy: y, r: 4, class: kind.split(" ")[0] });
    }
  }

  function say(state) {
    const [wrong, right] = [state.error, "none"].map((error) => at({ ...state, error }, state.h));
    const { bound } = right;
    if (right.apart > bound) {
      return "False alarm: at this step the witness rejects the shipped code, too.";
    }
    const passes = (error) => at({ ...state, error }, state.h).apart <= bound;
    const errors = Object.keys(PLANTS).filter((error) => error !== "none");
    const caught = errors.filter((error) => !passes(error)).length;
    const total = `With these choices ${caught} of ${errors.length} errors are caught.`;
    if (wrong.apart > bound) return `Caught. ${total}`;
    const empty = wrong.empty ? ": both sides are zero, nothing was compared" : "";
    return `The ${state.error === "none" ? "shipped code" : "error"} passes${empty}. ${total}`;
  }

  explore("gradient-check", {
    title: "Explorer: a gradient check",
    hint: "Set the upstream gradient to ones: the error passes. Does any step help?",
    size: [340, 254],
    state: {
      error: { start: "dx without the variance term", among: Object.keys(PLANTS) },
      witness: { start: "central difference", among: Object.keys(WITNESSES) },
      upstream: { start: "random", among: Object.keys(UPSTREAM) },
      h: { start: -5, min: -16, max: 0, step: 1 },
    },
    fields: {
      error: { label: "Planted error", named: { none: "none: the shipped code" } },
      witness: { label: "Witness" },
      upstream: { label: "Upstream gradient" },
      h: { label: "Step h", shown: (n) => `= ${n ? `1e${n}` : 1}` },
    },
    draw,
    say,
  });
})();
