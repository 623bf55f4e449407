// Three points and a unit without a bias: where descent ends with batch norm and without.
"use strict";

(() => {
  const INPUTS = [[1, 0], [0, 1], [1, 1]];
  const TARGETS = [1, 0, 0];
  const RAY = [0, -1]; // all optima with batch norm
  const STARS = { no: [2 / 3, -1 / 3], yes: [0, -1] }; // without it: no bias, or one

  const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const back = (dy) => [0, 1].map((j) => dot(dy, INPUTS.map((x) => x[j])));

  /** Half the squared error of the plain unit, and its gradient; a third weight is the bias. */
  function plain(w) {
    const dy = INPUTS.map((x, i) => dot(x, w) + (w[2] ?? 0) - TARGETS[i]);
    const bias = w.length === 3 ? [dot(dy, [1, 1, 1])] : [];
    return { loss: dot(dy, dy) / 2, slope: [...back(dy), ...bias] };
  }

  /** The same with batch norm behind the unit, gamma = 1, beta = 0 and eps = 0. */
  function normed(w) {
    const y = INPUTS.map((x) => dot(x, w));
    const c = y.map((value) => value - mean(y));
    const rstd = 1 / Math.sqrt(mean(c.map((value) => value * value)));
    const xhat = c.map((value) => value * rstd);
    const d = xhat.map((value, i) => value - TARGETS[i]);
    const along = mean(d.map((value, i) => value * xhat[i]));
    const dy = d.map((value, i) => rstd * (value - mean(d) - xhat[i] * along));
    return { loss: dot(d, d) / 2, slope: back(dy) };
  }

  /** The weights on the way down. At 0 batch norm has no gradient, and nothing moves. */
  function descend(unit, start) {
    const path = [start];
    for (let step = 0; step < 300; step += 1) {
      const { slope } = unit(path.at(-1));
      path.push(path.at(-1).map((value, j) => value - 0.2 * (slope[j] || 0)));
    }
    return path;
  }

  /** Lemma 4.5: the squared distance to the nearest optimum with batch norm, and the most that it
   * may be. */
  function lemma(start, star) {
    const left = dot(start, start) - Math.max(dot(start, RAY), 0) ** 2;
    const away = start.map((value, j) => value - star[j]);
    const right = dot(away, away) - (dot(star, star) - dot(star, start)) ** 2 / dot(star, star);
    const violated = left > right + 1e-9 * dot(start, start);
    return { left, right, applies: dot(start, star) > 0, violated };
  }

  /** Both ways down, where they end and the losses there, and the lemma. */
  function found({ start, bias }) {
    const paths = [
      descend(plain, bias === "yes" ? [...start, 0] : start),
      descend(normed, start),
    ];
    const ends = paths.map((path) => path.at(-1));
    const losses = [plain(ends[0]).loss, normed(ends[1]).loss];
    return { paths, ends, losses, ...lemma(start, STARS[bias]) };
  }

  explorers["three-points"] = { found };

  const SIDE = 2.4;
  const [toX, toY] = [across(10, 310, -SIDE, SIDE), across(310, 10, -SIDE, SIDE)];
  const from = { x: across(-SIDE, SIDE, 10, 310), y: across(-SIDE, SIDE, 310, 10) };
  const round = (value) => Math.round(value * 50) / 50;

  /** The loss with batch norm, which depends on the direction alone: the lower, the greyer. */
  function shade(put) {
    const losses = Array.from({ length: 72 }, (_, k) => {
      const angle = (k * Math.PI) / 36;
      return { angle, loss: normed([Math.cos(angle), Math.sin(angle)]).loss };
    });
    const highest = Math.max(...losses.map(({ loss }) => loss));
    losses.forEach(({ angle, loss }, k) => {
      const edge = [-0.5, 0.5].map((by) => {
        const turn = angle + (by * Math.PI) / 36;
        return `${toX(2.3 * Math.cos(turn))},${toY(2.3 * Math.sin(turn))}`;
      });
      const strength = 0.6 * (1 - loss / highest);
      const points = `${toX(0)},${toY(0)} ${edge.join(" ")}`;
      put(`shade ${k}`, "polygon", { points, fill: "#808080", "fill-opacity": strength });
    });
  }

  function draw({ put, handle, legend }, { start, bias }, set) {
    shade(put);
    put("ray", "line", { x1: toX(0), y1: toY(0), x2: toX(0), y2: toY(-2.3), class: "three" });
    const { paths, ends } = found({ start, bias });
    ["two dashed", "one"].forEach((kind, k) => {
      const points = paths[k].map(([a, b]) => `${toX(a).toFixed(1)},${toY(b).toFixed(1)}`);
      put(kind, "polyline", { points: points.join(" "), class: kind });
    });
    const [x, y] = ends[1];
    put("end", "circle", { cx: toX(x), cy: toY(y), r: 4, class: "one" });
    const [a, b] = STARS[bias];
    const star = { x: toX(a), y: toY(b) + 7, class: "middle", style: "font-size: 20px" };
    put("star", "text", star, "☆");
    put("w1", "text", { x: 296, y: toY(0) + 4 }, "w₁");
    put("w2", "text", { x: toX(0) + 5, y: 20 }, "w₂");
    legend(8, 324, [["two dashed", "without"], ["one", "batch norm"], ["three", "its optima"]]);
    const to = (x, y) => set({ start: [round(x), round(y)] });
    handle("start", {
      x: toX(start[0]), y: toY(start[1]), now: start[0], min: -2.2, max: 2.2,
      label: "Start: w₁ and w₂", says: `${fixed(start[0])} and ${fixed(start[1])}`,
      to: (point) => to(from.x(point.x), from.y(point.y)),
      by: (right, up) => to(start[0] + 0.1 * right, start[1] + 0.1 * up),
    });
  }

  function table({ start, bias }) {
    const { ends, losses } = found({ start, bias });
    const away = (end) => Math.hypot(end[0] - start[0], end[1] - start[1]);
    const row = (name, values) => [name, ...values.map((value) => fixed(value))];
    return [
      ["Batch norm", "without", "with"],
      row("Ends at w₁", ends.map((end) => end[0])),
      row("Ends at w₂", ends.map((end) => end[1])),
      row("From start", ends.map(away)),
      row("Loss there", losses),
    ];
  }

  function say(state) {
    const { left, right, applies, violated } = found(state);
    const [w1, w2] = state.start;
    if (w1 === 0 && w2 === 0) return "All outputs are alike: batch norm has no gradient here.";
    const stays = w1 === 0 && w2 > 0 ? "With batch norm it stays, where the loss is highest. " : "";
    const far = `The optima with batch norm are ${fixed(Math.sqrt(left))} away.`;
    if (!applies) return `${stays}${far} Lemma 4.5 says nothing about starts on this side.`;
    const verdict = violated ? "it is violated" : "it holds";
    return `${stays}${far} Lemma 4.5 allows ${fixed(Math.sqrt(Math.max(0, right)))}: ${verdict}.`;
  }

  explore("three-points", {
    title: "Explorer: where descent ends",
    hint: "Drag the start to where the dashed path ends. Then give the unit a bias.",
    size: [320, 330],
    state: {
      start: { start: [1, 1], min: -2.2, max: 2.2 },
      bias: { start: "no", among: ["no", "yes"] },
    },
    fields: { bias: { label: "Bias of the plain unit" } },
    draw,
    say,
    table,
  });
})();
