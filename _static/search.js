// Answers the search: from the index of the sections (site/sections.py), while one types. page.js asks
// for this script when a reader opens the search, and no page before.
globalThis.bookSearch = (index) => {
  // What is read, in a page as in a question: words in small letters without their endings, names of
  // layers in two words, and one name for what has several.
  const STOP = new Set(
    ("a about am an and any are as at be been but by can could did do does doing for from get got had has have how i " +
      "if in into is it its just me my of on or our really s should so some t than that the their them then there these " +
      "they this those to too u used uses using very was we were what when which while who why will with would you your " +
      "actual original become give happen help issue make need please problem question seem try want way work")
      .split(" ")
      .flatMap((word) => [word, word.replace(/s$|ing$|e$/, "")]),
  );
  const ENDINGS = [
    [/(?:ies|ied)$/, "y"],
    [/([^su])s$/, "$1"],
    [/(?:isations?|izations?|i[sz](?:ed?|ers?|ing))$/, ""],
    [/(?:ations?|ational|ates?|ated|ating|ators?)$/, ""],
    [/(?:ances?|ences?|ents?|ants?|ently|antly|ential)$/, ""],
    [/(?:ions?|ings?|ed|ers?|ly|ness|ments?|ables?|ities|ity|ives?)$/, ""],
  ];
  const stem = (word) => {
    if (/^normali[sz]/.test(word)) return "norm";
    if (!/^[a-z]{4,}$/.test(word) || word.endsWith("ss")) return word;
    let found = word;
    for (const [ending, instead] of ENDINGS) {
      const shorter = found.replace(ending, instead);
      if (shorter.length >= 3 && /[aeiouy]/.test(shorter)) found = shorter;
    }
    return found.replace(/e$/, "").replace(/([bdfgmnprt])\1$/, "$1");
  };
  const known = new Set([...index.same, ...index.near].flat());
  const split = (text) =>
    (text.match(/[\p{L}\p{N}\u0302_]+/gu) ?? []).flatMap((word) => {
      const pieces = word.split("_").filter(Boolean);
      if (pieces.length > 1) return [word.toLowerCase(), ...split(pieces.join(" "))]; // a name in code, whole as well
      if (known.has(word.toLowerCase())) return [word.toLowerCase()];
      const parts = word.replace(/([a-z]{2})([A-Z])/g, "$1 $2").replace(/([A-Z]{2,})([A-Z][a-z]{2})/g, "$1 $2");
      return parts.toLowerCase().split(" ");
    });
  const NO_LAYER = new Set(["ab", "de", "e", "re", "sub", "un"]);
  const words = (text) =>
    split(text)
      .flatMap((word) => {
        const [, layer] = /^([a-z]{2,})norm(?:ali[sz]ation|s)?(?:\dd)?$/.exec(word) ?? [];
        if (layer && !NO_LAYER.has(layer)) return [layer, "norm"];
        return [word.replace(/^(norm|bn|ln|gn)s?\dd?$/, "$1")];
      })
      .map(stem);

  // One token for each thing of several names; in a page its words count as well.
  const names = new Map();
  const longest = { words: 1 };
  for (const [first, ...others] of [...index.same, ...index.near.flat().map((name) => [name])]) {
    const token = words(first).join("_");
    for (const name of [first, ...others]) {
      const parts = words(name);
      if (!names.has(parts.join(" "))) names.set(parts.join(" "), token);
      longest.words = Math.max(longest.words, parts.length);
    }
  }
  const inNames = (all, keep) => {
    const found = [];
    for (let k = 0; k < all.length; ) {
      let length = Math.min(longest.words, all.length - k);
      while (length && !names.has(all.slice(k, k + length).join(" "))) length--;
      if (length) found.push(names.get(all.slice(k, k + length).join(" ")));
      if (!length || (keep && length > 1)) found.push(...all.slice(k, k + (length || 1)));
      k += length || 1;
    }
    return found;
  };
  const tokens = (text, keep) => inNames(words(text), keep);

  const telling = (list) => list.filter((token) => !STOP.has(token) && !/^\d$/.test(token));

  // Which sections have a word, and how much it says of them.
  const WORTH = { heading: 5, title: 6, asked: 3, prose: 1.3, rest: 0.6 };
  const KIND = { page: 1.15, section: 1, symptom: 1.25, term: 0.8, function: 0.7, claim: 0.55 };
  const LESS = /^(?:exercises|recap|recap-and-references|evidence|witnesses|code|what-would-falsify-this|what-it-does-not-show)$/;
  const PLACES = /^(?:chapters\/(?:claims\/|ledger|errata|problems|sheets|api|cheat-sheet)|labs|explorers)/;
  const has = new Map();
  const vocabulary = index.words.split(" ");
  const lines = index.rest.split("\n");
  const letter = (one) => index.letters.indexOf(one);
  const units = index.units.map(([number, kind, anchor, heading, prose, asked = []], place) => {
    const [page, title] = index.pages[number];
    const headed = page === "questions" && heading.endsWith("?") ? [heading] : []; // in the place of a title
    const weights = new Map();
    const add = (text, worth, more) => {
      const own = tokens(text, true);
      const count = new Map();
      for (const token of own) count.set(token, (count.get(token) ?? 0) + 1);
      for (const [token, times] of count)
        weights.set(token, (weights.get(token) ?? 0) + worth * (more ? (2 * times) / (1 + times) : 1));
    };
    add(heading, WORTH.heading * Math.min(1, (6 / split(heading).length) ** 0.5));
    if (kind !== "page") add(headed[0] ?? title, kind === "section" ? WORTH.title : WORTH.title / 4);
    const questions = [...asked, ...headed].map((question) => new Set(telling(tokens(question, false))));
    add([...new Set(split(asked.join(" ")))].join(" "), WORTH.asked);
    add(prose, kind === "symptom" ? WORTH.heading / 2 : WORTH.prose, true);
    const rest = lines[place].match(/../g) ?? [];
    add(rest.map(([high, low]) => vocabulary[64 * letter(high) + letter(low)]).join(" "), WORTH.rest);
    for (const [token, weight] of weights) {
      if (!has.has(token)) has.set(token, []);
      has.get(token).push([place, weight]);
    }
    const factor = KIND[kind] * (PLACES.test(page) && kind !== "claim" ? 0.6 : 1);
    return { page, title, kind, anchor, heading, prose, factor, questions, own: new Set(tokens(heading, false)) };
  });
  const rarity = (token) => Math.log(1 + units.length / (0.5 + (has.get(token)?.length ?? 0)));
  const weigh = (list) => list.reduce((sum, token) => sum + Math.min(5, rarity(token)), 0);
  // How near a question comes to one that a section answers: 1 is the same words.
  const likeness = (meant, question) =>
    weigh(meant.filter((token) => question.has(token))) ** 2 / (weigh(meant) * weigh([...question]) || 1);

  const groups = new Map();
  for (const group of index.near) {
    const members = group.flatMap((name) => tokens(name, false));
    for (const token of members) groups.set(token, new Set([...(groups.get(token) ?? []), ...members]));
  }

  // A word that no page has: two words written as one, the beginning of a word, or a slip of a key.
  const all = [...has.keys()];
  const close = (a, b) => {
    if (a[0] !== b[0]) return false;
    let [i, j] = [0, 0];
    while (i < a.length && a[i] === b[i]) i++;
    while (j < Math.min(a.length, b.length) - i && a.at(-1 - j) === b.at(-1 - j)) j++;
    const [one, other] = [a.slice(i, a.length - j), b.slice(i, b.length - j)];
    return Math.max(one.length, other.length) < 2 || (one.length === 2 && one === other[1] + other[0]);
  };
  const guesses = (token) => {
    for (let k = 2; k < token.length - 1; k++) {
      const parts = tokens(`${token.slice(0, k)} ${token.slice(k)}`, false);
      if (parts.every((part) => part.length > 1 && has.has(part) && rarity(part) < 6)) return [parts];
    }
    return token.length > 2 ? all.filter((other) => other.startsWith(token)).slice(0, 12).map((one) => [one]) : [];
  };
  const named = new Set([...names.keys()].flatMap((name) => name.split(" ")));
  const often = (token) => has.get(token)?.length ?? 0;
  const mended = (question) =>
    words(question).map((word) => {
      if (word.length < 4 || has.has(word) || named.has(word) || guesses(word).length) return word;
      return all.filter((other) => close(word, other)).sort((a, b) => often(b) - often(a))[0] ?? word;
    });

  // The sections for a question, the best first. A word counts by how rare it is and where it stands;
  // a section that lacks words of the question falls behind one that has them.
  const find = (question, typing = false) => {
    const asked = [...new Set(inNames(mended(question), false))];
    const scores = new Map();
    const exact = new Map();
    let whole = 0;
    const meant = telling(asked).length ? telling(asked) : asked;
    for (const [k, token] of meant.entries()) {
      const last = typing && k === meant.length - 1;
      const ways = has.has(token) ? [[token, 1]] : [];
      if (!ways.length) for (const parts of guesses(token)) for (const part of parts) ways.push([part, 0.8]);
      else if (last && token.length > 2) for (const other of all) if (other !== token && other.startsWith(token)) ways.push([other, 0.7]);
      for (const other of groups.get(token) ?? []) if (other !== token) ways.push([other, 0.55]);
      const best = new Map();
      let rare = 0;
      for (const [way, worth] of ways) {
        if (worth >= 0.7) rare = Math.max(rare, Math.min(5, rarity(way)));
        for (const [place, weight] of has.get(way) ?? []) {
          const value = worth * weight;
          if (value > (best.get(place)?.[0] ?? 0)) best.set(place, [value, worth]);
        }
      }
      rare ||= ways.length ? 4 : 0;
      const extra = token.includes("_") && question.toLowerCase().includes(token); // a name in code: its words count as well
      if (extra) rare /= 1.5;
      whole += rare;
      for (const [place, [value, worth]] of best) {
        const [score, covered] = scores.get(place) ?? [0, 0];
        scores.set(place, [score + rare * (value / (5 + value)) * 3, covered + rare * Math.sqrt(worth)]);
        if (units[place].own.has(token)) exact.set(place, (exact.get(place) ?? 0) + 1);
      }
    }
    const name = question.trim().toLowerCase();
    const said = /\b(?:claim|paper|said|says|true)/.test(name) ? 1 : KIND.claim;
    const rated = [...scores].map(([place, [score, covered]]) => {
      const unit = units[place];
      const share = covered / whole;
      const met = exact.get(place) ?? 0;
      const titled = met && (met / Math.max(1, unit.own.size)) * (met / meant.length);
      const called = name === unit.heading.toLowerCase() ? 1000 : 0;
      const meantSo = unit.kind === "claim" ? said / KIND.claim : LESS.test(unit.anchor) && !met ? 0.6 : 1;
      const like = Math.max(0, ...unit.questions.map((question) => likeness(meant, question)));
      return [called + score * share ** 1.5 * unit.factor * meantSo * (1 + 0.5 * titled + like), place];
    });
    rated.sort(([a, m], [b, n]) => b - a || m - n);
    // Of one page two sections stand first, the others after those of other pages that are as good. What
    // has little of the question is no answer, unless it is one of the first three.
    const seen = new Map();
    const best = Math.max(...rated.map(([score]) => score % 1000));
    return rated
      .slice(0, 60)
      .filter(([score], n) => n < 3 || score > 0.2 * best)
      .map(([score, place]) => {
        const { page } = units[place];
        seen.set(page, (seen.get(page) ?? 0) + 1);
        return [score * (seen.get(page) > 2 ? 0.8 : 1), place];
      })
      .sort(([a, m], [b, n]) => b - a || m - n)
      .map(([score, place]) => ({ ...units[place], score }));
  };

  const asks = (question) => new Set(tokens(question, true).filter((token) => !STOP.has(token)));
  return { find, asks, words };
};

// The list below the field. In the head of a page it holds the best and Enter opens the marked one; on
// the page of the search it holds more, and nothing is marked before an arrow was pressed.
globalThis.offerSearch = (field, { most, first }) => {
  const { find, asks, words } = bookSearch(globalThis.searchIndex);
  const make = (tag, attributes, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const count = make("p", { role: "status", class: "search-count" });
  const list = make("div", { role: "listbox", id: "search-list", "aria-label": "Sections found", class: "search-list" });
  field.closest("form").after(count, list);
  for (const [name, value] of Object.entries({
    role: "combobox",
    "aria-controls": list.id,
    "aria-autocomplete": "list",
    "aria-expanded": "false",
  }))
    field.setAttribute(name, value);

  const root = document.documentElement.dataset.content_root ?? "./";
  const WHAT = { symptom: "Symptom", claim: "Claim", term: "Term", function: "Function" };
  const marked = (text, asked) =>
    text.split(/([\p{L}\p{N}_]+)/u).map((part, k) => (k % 2 && words(part).some((word) => asked.has(word)) ? make("mark", {}, part) : part));
  const option = ({ page, title, kind, anchor, heading, prose }, asked, k) => {
    const place = WHAT[kind] ?? (kind === "page" ? "Page" : title);
    const lines = [
      make("strong", {}, ...marked(heading, asked)),
      make("small", {}, place),
      make("span", {}, ...marked(prose, asked)),
    ];
    const href = `${root}${page}.html${kind === "page" ? "" : `#${anchor}`}`;
    return make("a", { role: "option", id: `search-option-${k}`, "aria-selected": "false", tabindex: -1, href }, ...lines);
  };

  let at = -1;
  const choose = (k) => {
    list.children[at]?.setAttribute("aria-selected", "false");
    at = k;
    const chosen = list.children[at];
    chosen?.setAttribute("aria-selected", "true");
    chosen?.scrollIntoView({ block: "nearest" });
    if (chosen) field.setAttribute("aria-activedescendant", chosen.id);
    else field.removeAttribute("aria-activedescendant");
  };
  const answer = () => {
    const question = field.value.trim();
    const found = question ? find(question, !/\s$/.test(field.value)) : [];
    const asked = asks(question);
    list.replaceChildren(...found.slice(0, most).map((section, k) => option(section, asked, k)));
    field.setAttribute("aria-expanded", String(found.length > 0));
    const sections = `${found.length > most ? `The first ${most} of ` : ""}${found.length} section${found.length === 1 ? "" : "s"}`;
    count.textContent = !question ? "" : found.length ? sections : "Nothing found. Fewer or more common words may help.";
    at = -1;
    choose(first && found.length ? 0 : -1);
    list.scrollTop = 0;
  };

  field.addEventListener("input", answer);
  field.addEventListener("keydown", (event) => {
    const last = list.children.length - 1;
    const to = { ArrowDown: at < last ? at + 1 : 0, ArrowUp: at > 0 ? at - 1 : last }[event.key];
    if (to !== undefined && last >= 0) {
      event.preventDefault();
      choose(to);
    } else if (event.key === "Enter" && list.children[at]) {
      event.preventDefault();
      list.children[at].click();
    }
  });
  if (field.value) answer();
};
