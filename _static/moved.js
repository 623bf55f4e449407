// The address of a claim that has moved to another page leads on to it (tools/claim_links.py).
const leadOn = () => {
  const anchor = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (anchor?.matches("a.moved")) location.replace(anchor.href);
};
addEventListener("hashchange", leadOn);
document.addEventListener("DOMContentLoaded", leadOn);
