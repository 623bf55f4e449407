// Orders what Sphinx's search finds, which takes a page for as good as its best word: here a title
// counts by how much of it was asked for, and pages that tell stand before pages to look things up in.
{
  const find = Search._performSearch;
  const stemmer = new Stemmer();
  const words = (text) => splitQuery(text.toLowerCase()).filter((word) => !stopwords.includes(word));
  const stems = (text) => words(text).map((word) => stemmer.stemWord(word));
  const alike = (a, b) => a === b || (Math.min(a.length, b.length) > 3 && (a.startsWith(b) || b.startsWith(a)));

  const fit = (title, asked) => {
    const own = stems(title);
    const met = asked.filter((word) => own.some((other) => alike(word, other))).length;
    return met ** 2 / (asked.length * own.length || 1);
  };
  const place = (page) => {
    if (page.startsWith("chapters/claims/")) return -6;
    return /^(chapters\/(api|errata|ledger|cheat-sheet|frameworks)|genindex|references|report)$/.test(page) ? -4 : 0;
  };

  Search._performSearch = (query, terms, ...rest) => {
    const results = find(query, terms, ...rest);
    for (const result of results) {
      const [page, title, anchor] = result;
      const fits = fit(title, [...terms]);
      const called = result[4] >= 100; // by its own name: a claim, a function, a term
      if (fits === 1 && !anchor) result[4] += 200;
      else if (!called) result[4] += 20 * fits + place(page) - (anchor ? 3 : 0);
    }
    return results.sort(_orderResultsByScoreThenName);
  };

  // A page that was opened as a file may not read other files: no lines from them.
  if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}
