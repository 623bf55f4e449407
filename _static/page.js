// What a page does beyond being read: colours, sidebars, the field of the search, the place in the
// contents. Without this script a page is whole; its sidebars and its search need it on a phone.
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);

  // Light, dark, or as the reader's system has it.
  const system = matchMedia("(prefers-color-scheme: dark)");

  function colour(mode) {
    const theme = mode !== "auto" ? mode : system.matches ? "dark" : "light";
    Object.assign(document.documentElement.dataset, { mode, theme });
    localStorage.setItem("mode", mode);
  }

  system.addEventListener("change", () => colour(document.documentElement.dataset.mode));
  for (const button of all(".theme-switch-button")) {
    button.addEventListener("click", () => {
      const modes = system.matches ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
      colour(modes[(modes.indexOf(document.documentElement.dataset.mode) + 1) % 3]);
    });
  }

  // One switch for all the code that is folded.
  one(".code-switch")?.addEventListener("click", ({ currentTarget }) => {
    const open = currentTarget.getAttribute("aria-pressed") !== "true";
    currentTarget.setAttribute("aria-pressed", open);
    for (const fold of all(".tag_hide-input > details")) fold.open = open;
  });

  // A figure that is wider than the page is pushed sideways, by keys too, and shows that there is more.
  const figures = all(".cell_output figure");
  function markWide() {
    const found = figures.map((figure) => [figure, figure.scrollWidth > figure.clientWidth + 1]);
    for (const [figure, wide] of found) {
      figure.classList.toggle("wide", wide);
      if (wide) figure.tabIndex = 0;
      else figure.removeAttribute("tabindex");
    }
  }
  const narrow = matchMedia("(max-width: 700px)");
  narrow.addEventListener("change", markWide);

  // A sidebar is there while its hidden box is ticked; on a wide page the left one while it is not.
  for (const side of ["primary", "secondary"]) {
    const [button, bar] = [one(`.${side}-toggle`), one(`.bd-sidebar-${side}`)];
    const box = document.getElementById(`pst-${side}-sidebar-checkbox`);
    if (!button || !bar) continue;
    const turn = () => {
      box.checked = !box.checked;
      const there = bar.getBoundingClientRect().width > 0 && box.checked;
      if (there) setTimeout(() => bar.querySelector("a, button").focus(), 100); // once it is shown
      else button.focus();
    };
    button.addEventListener("click", turn);
    bar.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && box.checked) turn();
    });
  }

  // The search: a field above the page, or that of the search page itself.
  const above = one(".search-button__wrapper");
  const page = one(".search-page input");
  const field = page ?? above?.querySelector("input");
  let before = null;

  // Its script and the index come when they are first asked for; typing may begin meanwhile.
  const place = document.currentScript.src.replace(/page\.js.*/, "");
  const bring = (name) =>
    new Promise((done, failed) => {
      const script = Object.assign(document.createElement("script"), { src: place + name, onload: done, onerror: failed });
      document.head.append(script);
    });
  let brought = null;
  function offer() {
    brought ??= Promise.all(["search-index.js", "search.js"].map(bring)).then(() =>
      offerSearch(field, page ? { most: 30, first: false } : { most: 8, first: true }),
    );
  }
  if (page) {
    page.value = new URLSearchParams(location.search).get("q") ?? "";
    page.closest("form").addEventListener("submit", (event) => event.preventDefault());
    page.focus();
    offer();
  }
  field?.addEventListener("focus", offer);

  function search(open) {
    if (above?.contains(field)) above.classList.toggle("show", open);
    if (open) {
      offer();
      before = document.activeElement;
      field.select();
      field.focus();
    } else {
      field.blur(); // a field that is hidden would keep the keys
      before?.focus();
    }
  }

  const mac = /^(Mac|iPhone|iPad)/.test(navigator.platform);
  if (mac) for (const key of all(".kbd-shortcut__modifier:first-child")) key.innerText = "⌘";
  for (const button of all(".search-button__button")) button.onclick = () => search(true);
  one(".search-button__overlay")?.addEventListener("click", () => search(false));
  // What was found may be on this page.
  above?.addEventListener("click", (event) => {
    if (event.target.closest("[role=option]")) above.classList.remove("show");
  });
  addEventListener("keydown", (event) => {
    const [asked, other] = mac ? [event.metaKey, event.ctrlKey] : [event.ctrlKey, event.metaKey];
    const typing = event.target.closest?.("input, select, textarea, [contenteditable]");
    const slash = event.key === "/" && !typing && !asked && !other && !event.altKey;
    if (slash || (asked && !other && !event.shiftKey && !event.altKey && event.key.toLowerCase() === "k")) {
      event.preventDefault();
      search(true);
    } else if (event.key === "Escape") {
      if (document.activeElement === field) search(false);
      for (const panel of all("details.run-page[open]")) panel.open = false;
    }
  });
  addEventListener("click", (event) => {
    for (const panel of all("details.run-page[open]")) panel.open = panel.contains(event.target);
  });

  // What is copied of a formula is its TeX.
  addEventListener("copy", (event) => {
    const chosen = getSelection();
    if (!chosen.rangeCount || chosen.isCollapsed) return;
    const range = chosen.getRangeAt(0).cloneRange();
    const around = (node) => (node.closest ? node : node.parentElement).closest("[data-tex]");
    const [first, last] = [around(range.startContainer), around(range.endContainer)];
    if (first) range.setStartBefore(first);
    if (last) range.setEndAfter(last);
    const box = document.createElement("div");
    box.append(range.cloneContents());
    const formulas = [...box.querySelectorAll("[data-tex]")];
    if (!formulas.length) return;
    event.clipboardData.setData("text/html", box.innerHTML);
    for (const formula of formulas) {
      const [tex, mark] = [formula.dataset.tex, formula.matches("div") ? "$$" : "$"];
      const beside = formula.textContent.replace(formula.querySelector("math")?.textContent ?? "", "\0").split("\0");
      formula.replaceWith(mark === "$" ? `${beside[0]}$${tex}$${beside[1] ?? ""}` : `$$${tex}$$`);
    }
    document.body.append(box); // lines are told apart only where they are laid out
    event.clipboardData.setData("text/plain", box.innerText.trim());
    box.remove();
    event.preventDefault();
  });

  // Where the reader is: marked in the contents of the page. A section counts while it crosses a band
  // in the upper part of the window.
  const entries = new Map(all(".bd-toc-nav a").map((a) => [decodeURIComponent(a.hash).slice(1), a]));
  const crossing = new Set();
  const watch = new IntersectionObserver(
    (seen) => {
      for (const { target, isIntersecting } of seen)
        crossing[isIntersecting ? "add" : "delete"](target.id);
      const here = [...entries.keys()].filter((id) => crossing.has(id)).at(-1);
      for (const [id, a] of entries) {
        for (const e of [a, a.parentElement]) e.classList.toggle("active", id === here);
      }
    },
    { rootMargin: "-15% 0px -75%" },
  );
  for (const section of all("article section[id]")) if (entries.has(section.id)) watch.observe(section);

  new IntersectionObserver(([pixel]) => {
    document.body.classList.toggle("scrolled", pixel.boundingClientRect.y < 0);
  }).observe(one(".sbt-scroll-pixel-helper"));

  // A box that scrolls must be reached by the keyboard. Boxes are measured when there is time, and
  // again when a fold opens or the window changes.
  const BOXES = ["pre", ".cell_output", "div.math > div", ".pst-scrollable-table-container", "table.verdict"];
  const boxes = (part) => [...part.querySelectorAll(`:is(${BOXES})`)];
  const waiting = new Set();

  // It fades at the side where there is more, and its first column stays if there is room beside it.
  const sizes = (box) => {
    const cell = box.querySelector("tr > :first-child");
    const { scrollLeft: left, scrollWidth, clientWidth } = box;
    return { box, left, right: scrollWidth - clientWidth - left, pinned: cell?.offsetWidth < 0.4 * clientWidth };
  };
  const fade = ({ box, left, right }) => {
    box.dataset.more = [left > 1 && "left", right > 1 && "right"].filter(Boolean).join(" ");
  };
  addEventListener("scroll", ({ target }) => target.dataset?.more !== undefined && fade(sizes(target)), true);

  // First all is read, then all is written: a size that is asked for after a change is laid out anew.
  function measure(time) {
    const found = [];
    for (const box of waiting) {
      waiting.delete(box);
      found.push(sizes(box));
      if (time.timeRemaining() < 5) break;
    }
    for (const each of found) {
      const { box, left, right, pinned } = each;
      if (left + right > 0) {
        box.tabIndex = 0;
        box.classList.toggle("pinned", pinned);
        fade(each);
      } else {
        box.removeAttribute("tabindex");
        box.removeAttribute("data-more");
      }
    }
    if (waiting.size) soon(measure);
  }
  const soon = window.requestIdleCallback ?? ((act) => setTimeout(act, 50, { timeRemaining: () => 0 }));

  function look(part) {
    if (!waiting.size) soon(measure);
    for (const box of boxes(part)) waiting.add(box);
  }
  function lookFromNow(article) {
    look(article);
    article.addEventListener("toggle", (event) => look(event.target), true);
    addEventListener("resize", () => look(article));
  }

  // On arrival the sections are laid out one by one (book.css), so that the page answers meanwhile.
  function arrive(held) {
    const section = held.shift();
    if (section) {
      section.style.contentVisibility = "visible";
      requestAnimationFrame(() => setTimeout(arrive, 0, held));
      return;
    }
    if (narrow.matches) markWide();
    document.documentElement.classList.remove("arriving");
    if (one("article")) lookFromNow(one("article"));
  }
  arrive(all(".arriving .bd-article section section"));

  // The page's own place in the left sidebar, if it is not seen there.
  new IntersectionObserver(([{ target, isIntersecting, boundingClientRect: place }], observer) => {
    const bar = one(".bd-sidebar-primary");
    if (!isIntersecting && place.width) bar.scrollTop += place.top - bar.clientHeight / 2;
    observer.disconnect();
  }).observe(one(".bd-docs-nav .current.active > a") ?? document.body);
})();
