// Brings the page up to date: asks for it again and replaces the parts that say something else, so that nothing flickers and what has the
// keyboard's focus keeps it.
"use strict";

const EVERY = 3000; // milliseconds
const freshness = document.getElementById("freshness");

function replaceParts(fresh) {
  const now = new Map([...fresh.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
  const shown = [...document.querySelectorAll("[data-part]")];
  const same = shown.length === now.size && shown.every((part) => now.has(part.dataset.part));
  const active = document.activeElement;
  if (!same) {
    // Something came or went; who writes into a form is not disturbed.
    if (active && active.closest("main form")) return;
    document.querySelector("main").replaceChildren(...fresh.querySelector("main").childNodes);
    if (active && active.id) document.getElementById(active.id)?.focus();
    return;
  }
  for (const part of shown) {
    const other = now.get(part.dataset.part);
    if (!part.isEqualNode(other)) {
      const focused = part.contains(active) ? active.id : null;
      part.replaceWith(other);
      if (focused) document.getElementById(focused)?.focus();
    }
  }
}

async function update() {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href, { signal: AbortSignal.timeout(20000) });
    const text = await answer.text();
    if (answer.status === 401) {
      freshness.textContent = "kubectl card ui was started anew: open the address that it printed.";
      return;
    }
    if (answer.status >= 500) {
      freshness.textContent = "The cluster did not answer: what is shown is what it said last.";
      return;
    }
    replaceParts(new DOMParser().parseFromString(text, "text/html"));
    const said = answer.ok ? "Kept up to date." : "This is not there any more.";
    if (freshness.textContent !== said) freshness.textContent = said;
  } catch {
    freshness.textContent = "Nobody answers any more: is kubectl card ui still running?";
  }
}

async function keepUpToDate() {
  await update();
  setTimeout(keepUpToDate, EVERY);
}

if (document.querySelector("main[data-live]")) setTimeout(keepUpToDate, EVERY);

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  navigator.clipboard.writeText(button.dataset.copy).then(() => { freshness.textContent = "Copied."; });
});
