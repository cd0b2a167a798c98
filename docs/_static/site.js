// Code, formulas and tables that are wider than their column scroll: the Tab key reaches those and passes the others by.
const widths = new ResizeObserver((resized) => {
  for (const { target } of resized) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
for (const block of document.querySelectorAll("pre, div.math, div.table-wrapper")) widths.observe(block);
