// A field in which a reader writes a gradient in the notation of the page. It is evaluated on the
// batch that is shown and on random ones, and the page says which mistake it has: the slips in the
// lines of the layer come with the page (normbook/show/blackboard.py, normlib/verify/lines.py).
"use strict";

(() => {
  const NEAR = 1e-8; // of two gradients that are the same
  const CLOSE = 1e-6; // of a factor to the number that it is taken for
  const BATCHES = 3; // a name is given only if it fits on all of them

  // The grammar: sum = product {(+|-) product}, product = power {(*|/) power},
  // power = [-] atom [** power], atom = number | name | name(sum) | (sum).

  const SIGNS = [
    ["x̂", "xhat"], ["σ²", " var "], ["σ^2", " var "], ["γ", "gamma"], ["β", "beta"], ["μ", "mu"], ["ε", "eps"],
    ["²", "**2"], ["³", "**3"], ["^", "**"], ["·", "*"], ["×", "*"], ["÷", "/"], ["−", "-"], ["–", "-"], ["√", "sqrt"],
  ];
  const FUNCTIONS = ["mean", "sum", "total", "others", "sqrt"];

  class Unreadable extends Error {}

  function parse(text) {
    const plain = SIGNS.reduce((said, [sign, name]) => said.replaceAll(sign, name), text);
    const tokens = plain.match(/\d+\.?\d*|\.\d+|[\p{L}_][\p{L}\d_]*|\*\*|[-+*/()]|[^\s]/gu) ?? [];
    let at = 0;
    const next = () => tokens[at] ?? "";
    const expect = (token) => {
      if (next() !== token) throw new Unreadable(`expected ${token}, ${got()}`);
      at += 1;
    };
    const got = () => (next() ? `got ${next()}` : "but it ends there");

    function sum() {
      let node = product();
      while (["+", "-"].includes(next())) node = [tokens[at++], node, product()];
      return node;
    }
    function product() {
      let node = power();
      while (["*", "/"].includes(next())) node = [tokens[at++], node, power()];
      return node;
    }
    function power() {
      if (next() === "-") {
        at += 1;
        return ["-", 0, power()];
      }
      const base = atom();
      if (next() !== "**") return base;
      at += 1;
      return ["**", base, power()];
    }
    function atom() {
      const token = next();
      if (token === "(") {
        at += 1;
        const inside = sum();
        expect(")");
        return inside;
      }
      if (/^[\d.]/.test(token)) return Number(tokens[at++]);
      if (!/^[\p{L}_]/u.test(token)) throw new Unreadable(`expected a number or a name, ${got()}`);
      at += 1;
      if (next() !== "(") return token;
      if (!FUNCTIONS.includes(token)) {
        throw new Unreadable(`${token} is no function here, but mean, sum, total and sqrt are; write * to multiply`);
      }
      expect("(");
      const inside = sum();
      expect(")");
      return ["call", token, inside];
    }

    if (!tokens.length) throw new Unreadable("nothing is written yet");
    const node = sum();
    if (at < tokens.length) throw new Unreadable(`expected an operator such as * or +, ${got()}`);
    return node;
  }

  const parsed = new Map(); // the formulas of the slips are read once
  function read(text) {
    if (!parsed.has(text)) parsed.set(text, parse(text));
    return parsed.get(text);
  }

  // Every value is a list with one number for each entry; labels say which entries share a
  // statistic, or a parameter.

  const OPERATORS = {
    "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b, "**": (a, b) => a ** b,
  };

  function addUp(values, labels) {
    const sums = new Float64Array(values.length);
    values.forEach((value, i) => (sums[labels[i]] += value));
    return values.map((_, i) => sums[labels[i]]);
  }

  function evaluate(node, batch, names) {
    const { size, layout } = batch;
    if (typeof node === "number") return new Float64Array(size).fill(node);
    if (typeof node === "string") {
      const value = names[node];
      if (value === undefined) throw new Unreadable(`${node} is not known here`);
      return typeof value === "number" ? new Float64Array(size).fill(value) : value;
    }
    const [kind, left, right] = node;
    if (kind === "call") {
      const inside = evaluate(right, batch, names);
      if (left === "sqrt") return inside.map(Math.sqrt);
      const labels = { total: layout.parameter, others: layout.others }[left] ?? layout.statistic;
      const sums = addUp(inside, labels);
      if (left === "sum" || left === "total") return sums;
      const counts = addUp(inside.map(() => 1), labels);
      return sums.map((sum, i) => sum / counts[i]);
    }
    const [a, b] = [evaluate(left, batch, names), evaluate(right, batch, names)];
    return a.map((value, i) => OPERATORS[kind](value, b[i]));
  }

  /** The value of every line, with the slips in their places. */
  function compute(board, batch, slips = {}) {
    const names = { ...batch.values };
    for (const [line, formula] of Object.entries(board.lines)) {
      names[line] = evaluate(read(slips[line] ?? formula), batch, names);
    }
    return names;
  }

  function makeBatch(layout, upstream, values) {
    const size = upstream.length;
    const counts = addUp(new Float64Array(size).fill(1), layout.statistic);
    const arrays = Object.entries(values).map(([name, value]) => [
      name, typeof value === "number" ? value : Float64Array.from(value),
    ]);
    const whole = { ...Object.fromEntries(arrays), m: counts[0] };
    return { size, layout, values: whole, upstream: Float64Array.from(upstream) };
  }

  /** Batches of other numbers: the arguments drawn anew, one number for each that is shared. */
  function drawBatches(board) {
    let seed = 20151;
    const draw = () => {
      seed = (seed * 48271) % 2147483647;
      return seed / 2147483647;
    };
    const { values, ...layout } = board.tried;
    const size = layout.statistic.length;
    const one = () => 0.4 + 1.6 * draw();
    return Array.from({ length: BATCHES }, () => {
      const drawn = { ...values };
      board.arguments.forEach((name, place) => {
        const numbers = Array.from({ length: size }, () => (draw() < 0.5 && place === 0 ? -1 : 1) * one());
        drawn[name] = place === 0 ? numbers : layout.parameter.map((label) => numbers[label]);
      });
      if ("eps" in drawn) drawn.eps = 0.01;
      return makeBatch(layout, Array.from({ length: size }, () => one() * (draw() < 0.5 ? -1 : 1)), drawn);
    });
  }

  const withUpstream = (board, batch) => ({
    ...batch, values: { ...batch.values, [board.upstream]: batch.upstream },
  });

  // What a reader has written, and what is wrong with it.

  const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  const isNear = (found, expected, scale) =>
    found.every((value, i) => Math.abs(value - expected[i]) <= NEAR * scale);

  /** The c for which found = c · expected on all batches, or null. */
  function fitAll(found, expected) {
    let c = null;
    for (const [n, one] of found.entries()) {
      const other = expected[n];
      if (!other.every(Number.isFinite)) return null;
      c ??= dot(one, other) / dot(other, other);
      if (Math.abs(c - 1) < CLOSE) c = 1;
      const scale = Math.max(largest(one), largest(other));
      const scaled = other.map((value) => c * value);
      if (!Number.isFinite(c) || Math.abs(c) < CLOSE || !isNear(one, scaled, scale)) return null;
    }
    return c;
  }

  function nameFactor(c, m) {
    const sign = c < 0 ? "−" : "";
    const forms = [["2", 2], ["m", m], ["m/(m − 1)", m / (m - 1)], ["√m", Math.sqrt(m)]];
    for (const [text, size] of forms) {
      for (const [said, value] of [[text, size], [`1/${text.length > 2 ? `(${text})` : text}`, 1 / size]]) {
        if (Math.abs(Math.abs(c) / value - 1) < CLOSE) return `${sign}${said} times what it should be`;
      }
    }
    return `${Number(c.toPrecision(4))} times what it should be`.replace("-", "−");
  }

  /** The numbers with which the terms add up to what was found; null if they do not. */
  function fitTerms(found, terms) {
    const flat = (rows) => rows.flatMap((values) => [...values]);
    const columns = terms.map(flat);
    const wanted = flat(found);
    const rows = columns.map((one) => [...columns.map((other) => dot(one, other)), dot(one, wanted)]);
    for (let i = 0; i < rows.length; i++) { // Gauss, with the largest pivot
      const best = rows.slice(i).reduce((k, row, n) => (Math.abs(row[i]) > Math.abs(rows[k][i]) ? n + i : k), i);
      [rows[i], rows[best]] = [rows[best], rows[i]];
      if (Math.abs(rows[i][i]) < 1e-9) return null;
      rows.forEach((row, k) => {
        if (k === i) return;
        const by = row[i] / rows[i][i];
        row.forEach((_, j) => (row[j] -= by * rows[i][j]));
      });
    }
    const numbers = rows.map((row, i) => row.at(-1) / row[i]);
    const sum = wanted.map((_, j) => numbers.reduce((all, c, i) => all + c * columns[i][j], 0));
    return isNear(sum, wanted, largest(wanted)) ? numbers : null;
  }

  function* pairs(slips) {
    for (const [i, one] of slips.entries()) {
      for (const other of slips.slice(i + 1)) if (other[0] !== one[0]) yield [one, other];
    }
  }

  /** The lines that a line is made of, itself among them. */
  function linesOf(board, line, known = new Set([line])) {
    for (const name of board.lines[line].match(/\w+/g)) {
      if (!board.lines[name] || known.has(name)) continue;
      known.add(name);
      linesOf(board, name, known);
    }
    return known;
  }

  /** {kind, says}: "right", a mistake by its name, or "unknown". */
  function diagnose(board, target, text) {
    const batches = drawBatches(board).map((batch) => withUpstream(board, batch));
    const right = batches.map((batch) => compute(board, batch));
    const node = parse(text);
    const found = batches.map((batch, n) => {
      const { [target]: _, ...names } = right[n]; // its own name is not an answer
      return evaluate(node, batch, names);
    });
    const expected = right.map((names) => names[target]);
    const m = batches[0].values.m;
    if (!found.every((values) => values.every(Number.isFinite))) {
      return { kind: "not finite", says: "it is not finite" };
    }
    const scaleOf = (n) => Math.max(largest(expected[n]), largest(right[n].r ?? [1]));
    if (found.every((values, n) => isNear(values, expected[n], scaleOf(n)))) return { kind: "right", says: "right" };
    if (found.every((values) => largest(values) === 0)) return { kind: "zero", says: "it is zero" };
    const c = fitAll(found, expected);
    if (c !== null && Math.abs(c + 1) < CLOSE) return { kind: "sign", says: "it has the wrong sign" };
    if (c !== null) return { kind: "factor", says: `it is ${nameFactor(c, m)}` };

    for (const name of board.arguments) {
      const other = right.map((names) => names[`d${name}`]);
      if (`d${name}` !== target && fitAll(found, other) === 1) return { kind: "swapped", says: `it is the gradient of ${name}` };
    }

    const trySlips = (slips) => {
      const changed = Object.fromEntries(slips.map(([line, formula]) => [line, formula]));
      const values = [];
      for (const [n, batch] of batches.entries()) {
        try {
          values.push(compute(board, batch, changed)[target]);
        } catch {
          return null; // a line may use what comes later
        }
        if (n === 0 && fitAll([found[0]], [values[0]]) === null) return null;
      }
      return fitAll(found, values);
    };
    const say = (slips, factor) => {
      const where = (line) => (line === target ? "" : ` in ${line} = ${board.lines[line]}`);
      const said = slips.map(([line, , says]) => `${says}${where(line)}`).join("; ");
      const more = factor === 1 ? "" : `; and it is ${nameFactor(factor, m)}`;
      return { kind: slips.map((slip) => slip[3]).join(", "), says: said + more };
    };
    const used = linesOf(board, target);
    const slips = board.slips.filter(([line]) => used.has(line));
    const fits = slips.map((slip) => [slip, trySlips([slip])]).filter(([, factor]) => factor !== null);
    const rank = ([[line], factor]) => 2 * (line !== target) + (factor !== 1);
    fits.sort((one, other) => rank(one) - rank(other)); // a slip in the line itself comes first
    if (fits.length) return say([fits[0][0]], fits[0][1]);

    const parts = board.terms[target];
    const values = parts.map(([, alone]) => batches.map((batch) => compute(board, batch, { [target]: alone })[target]));
    const numbers = parts.length > 1 ? fitTerms(found, values) : null;
    if (numbers) {
      const off = numbers.map((c, i) => [c, parts[i][0]]).filter(([c]) => Math.abs(c - 1) > CLOSE);
      const how = (c) => (Math.abs(c) < CLOSE ? "missing" : Math.abs(c + 1) < CLOSE ? "of the wrong sign" : nameFactor(c, m));
      return { kind: "factor of a term", says: off.map(([c, part]) => `the term ${part} is ${how(c)}`).join("; ") };
    }
    const names = Object.keys(right[0]).filter((name) => board.names[name] && name !== target);
    for (const name of names) {
      for (const power of [1, -1, 2, -2]) {
        const times = expected.map((values, n) => values.map((value, i) => {
          const by = right[n][name];
          return value * (typeof by === "number" ? by : by[i]) ** power;
        }));
        const factor = fitAll(found, times);
        if (factor === null) continue;
        const square = Math.abs(power) === 2 ? " (its square)" : "";
        const how = power < 0 ? "is missing" : "stands there once too often";
        const more = factor === 1 ? "" : `, and it is ${nameFactor(factor, m)}`;
        return { kind: "factor", says: `the factor ${name} ${how}${square}${more}` };
      }
    }
    for (const pair of pairs(slips)) {
      const factor = trySlips(pair);
      if (factor !== null) return say(pair, factor);
    }
    return { kind: "unknown", says: "it is not the gradient, and no single mistake that is known here gives it" };
  }

  /** The batch that is shown, and the value of every line on it. */
  function showBatch(board) {
    const batch = withUpstream(board, makeBatch(board.shown, board.shown.upstream, board.shown.values));
    return [batch, compute(board, batch)];
  }

  // On the page.

  const WRITTEN = { xhat: "x̂", gamma: "γ", beta: "β", mu: "μ", eps: "ε", var: "σ²", dgamma: "dγ", dbeta: "dβ", dmu: "dμ", dvar: "dσ²" };
  const written = (text) => text.replace(/\w+/g, (name) => WRITTEN[name] ?? name);

  function show(place) {
    const board = JSON.parse(place.dataset.board);
    const [batch, right] = showBatch(board);
    const id = `board-${board.arguments[0]}-${board.targets.length}`;
    const target = element("select", { id: `${id}-target` });
    for (const name of board.targets) target.add(new Option(written(name), name));
    const input = element("input", { id, type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
    const result = element("p", { role: "status" });
    const rows = element("table", { "aria-label": "the numbers of the example" });
    const check = element("button", { type: "button" }, "Check");
    const reveal = element("button", { type: "button" }, "Show the answer");
    const insert = (name) => {
      const button = element("button", { type: "button", class: "key", title: board.names[name] ?? name, "aria-label": `insert ${name}` }, written(name));
      button.addEventListener("click", () => {
        const text = FUNCTIONS.includes(name) ? `${name}(` : written(name);
        input.setRangeText(text, input.selectionStart, input.selectionEnd, "end");
        input.focus();
      });
      return button;
    };

    const cells = (values) => Array.from(values.slice(0, 8), (v) => element("td", {}, fixed(v, Number.isInteger(v) ? 0 : 3)));
    const row = (name, values) => element("tr", {}, element("th", { scope: "row" }, name), ...cells(values));
    const given = () => [board.arguments[0], board.upstream].map((name) => row(written(name), right[name]));

    function answer() {
      const name = target.value;
      let said, mine;
      try {
        said = diagnose(board, name, input.value);
        const { [name]: _, ...names } = right;
        mine = evaluate(parse(input.value), batch, names);
      } catch (error) {
        if (!(error instanceof Unreadable)) throw error;
        delete result.dataset.kind;
      result.textContent = `Not readable: ${error.message}.`;
        rows.replaceChildren(...given());
        return;
      }
      result.dataset.kind = said.kind;
      const lead = said.kind === "right" ? `Right. On the page: ${name} = ${board.lines[name]}` : `${name}: ${said.says}.`;
      result.textContent = written(lead);
      const sides = said.kind === "right" ? [row(written(name), right[name])]
        : [row(`your ${written(name)}`, mine), row(`right ${written(name)}`, right[name])];
      rows.replaceChildren(...given(), ...sides);
    }
    function ask() {
      input.value = "";
      delete result.dataset.kind;
      result.textContent = "";
      rows.replaceChildren(...given());
      input.setAttribute("aria-label", `your formula of ${target.value}`);
    }

    check.addEventListener("click", answer);
    reveal.addEventListener("click", () => {
      input.value = board.lines[target.value];
      answer();
    });
    input.addEventListener("keydown", (event) => event.key === "Enter" && answer());
    target.addEventListener("change", ask);
    const known = Object.keys(board.names).filter((name) => !board.targets.includes(name));
    const keys = [...known, "mean", "sum", "total", "sqrt"].map(insert);
    const line = element("div", { class: "line" }, element("label", { for: target.id }, "Write "), target, " = ", input, check);
    place.replaceChildren(
      element("p", {}, element("strong", {}, "Blackboard. "), "mean and sum run over the values that share a statistic, total over those that share a parameter."),
      line, element("div", { class: "keys" }, ...keys), result, rows, reveal,
    );
    ask();
  }

  explorers.blackboard = { diagnose, showBatch };
  document.querySelectorAll(".blackboard").forEach(show);
})();
