// What is wider than the page becomes smaller, and what is short stays on one page.
(width) => {
  for (const box of document.querySelectorAll("table, pre, .math > div")) {
    const room = box.parentElement.clientWidth || width, needed = box.scrollWidth;
    if (needed > room + 1) box.style.fontSize = `${Math.max(0.5, (room / needed) * 0.99)}em`;
    if (box.offsetHeight < 400) box.style.breakInside = "avoid";
  }
}
