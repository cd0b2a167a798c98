"""The one style sheet of our pages: light and dark, phone and paper, nothing fetched from anywhere."""

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1c2430; --soft: #56606e; --line: #d5dae1;
  --panel: #f4f6f8; --accent: #005a8f; --good: #00664a; --warn: #9a4200; }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #161b22; --ink: #e6e9ee; --soft: #a8b2bf;
  --line: #38414d; --panel: #1f2630; --accent: #7cc4f0; --good: #4fd0a5; --warn: #f0a860; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1.25rem 3rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.02rem; margin: 1.6rem 0 .3rem; }
h3 .badge, td .badge { margin: 0; white-space: nowrap; }
p { margin: .5rem 0; max-width: 46rem; overflow-wrap: anywhere; }
a { color: var(--accent); }
.badge { display: inline-block; padding: .1rem .6rem; border: 1.5px solid currentColor; border-radius: 1rem;
  font-size: .85rem; font-weight: 600; margin-bottom: .6rem; }
.good { color: var(--good); } .warn { color: var(--warn); }
.lead { font-size: 1.15rem; }
.soft { color: var(--soft); font-size: .9rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem; margin: 1.2rem 0; }
.card { background: var(--panel); border-radius: .5rem; padding: .6rem .8rem; }
.card b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td { white-space: nowrap; }
th.words, td.words { text-align: left; white-space: normal; min-width: 5.5rem; }
th:first-child, td:first-child { padding-left: 0; }
thead th { color: var(--soft); font-weight: 600; font-size: .88rem; }
tbody th.words { font-weight: 400; min-width: 6.5rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1.25rem; }
.figures + .scroll, .figures + .figures, .scroll + figure { margin-top: 1.25rem; }
figure { margin: 0; max-width: 42rem; break-inside: avoid; }
figure img { width: 100%; height: auto; display: block; }
.wide figure, figure.wide { max-width: none; margin: 1rem 0; }
.wide figcaption { max-width: 46rem; }
video { width: 100%; max-width: 42rem; display: block; }
figcaption { color: var(--soft); font-size: .88rem; margin-top: .35rem; }
dl { display: grid; grid-template-columns: 13rem 1fr; gap: .35rem 1rem; margin: .5rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--panel); border-radius: .5rem; padding: .8rem 1rem; white-space: pre-wrap;
  overflow-wrap: anywhere; font-size: .88rem; }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .85rem; }
@media (max-width: 36rem) { .stacked thead { display: none; } .stacked tr { display: block; padding: .5rem 0;
  border-bottom: 1px solid var(--line); } .stacked td { display: block; border: 0; padding: .1rem 0; }
  .wide figure { overflow-x: auto; } .wide img { width: 46rem; max-width: none; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .6rem; }
  th, td { padding: .35rem .35rem; font-size: .92rem; } h1 { font-size: 1.45rem; } }
@media print { :root { color-scheme: light; } body { font-size: 11pt; } main { max-width: none; padding: 0; }
  h2 { break-after: avoid; }
  pre, tr, .card { break-inside: avoid; } .figures { grid-template-columns: 1fr 1fr; } }
"""
