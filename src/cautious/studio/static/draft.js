// What a page remembers for when it is loaded again: its document, and files that it brought.

const DRAFT = "cautious-studio-draft";
// browsers keep a few megabytes for a page
const MOST_BYTES = 2_000_000;

export function keepDraft({ of, name, document, brought }) {
  // several solutions of a notebook would get each other's
  if (globalThis.inNotebook) return;
  const size = (brought?.files ?? []).reduce((sum, [, bytes]) => sum + bytes.length, 0);
  // without its files a problem cannot be asked about again
  if (name === "" && size > MOST_BYTES) return;
  const kept = size > MOST_BYTES ? null : packed(brought);
  try {
    sessionStorage.setItem(DRAFT, JSON.stringify({ of, name, document, brought: kept }));
  } catch {
    sessionStorage.removeItem(DRAFT);
  }
}

/** What was kept of the page that began with `of`; null where there is nothing. */
export function restoreDraft(of) {
  if (globalThis.inNotebook) return null;
  try {
    const draft = JSON.parse(sessionStorage.getItem(DRAFT));
    return draft === null || draft.of !== of ? null : { ...draft, brought: unpacked(draft.brought) };
  } catch {
    return null;
  }
}

/** Files as texts that fit into JSON, and back. */
export function packed(brought) {
  if (brought === null || "world" in brought) return brought;
  const files = brought.files.map(([name, bytes]) => [name, toText(bytes)]);
  return { files, options: brought.options };
}

export function unpacked(kept) {
  if (kept === null || "world" in kept) return kept;
  const files = kept.files.map(([name, text]) => [name, Uint8Array.from(atob(text), (one) => one.charCodeAt(0))]);
  return { files, options: kept.options };
}

export function toText(bytes) {
  let text = "";
  for (let k = 0; k < bytes.length; k += 8192) text += String.fromCharCode(...bytes.subarray(k, k + 8192));
  return btoa(text);
}
