"""Reports: tables, drawings and HTML pages of Solutions.

solution_page, frontier_page                  the two pages
sentences, requirements, contributions        facts about a solution and their wording
trade_off                                     return against risk; the only file that solves, and only neighbours
text_tables, plots, drawings, graph, canvas   tables and figures
words, accuracy                               how numbers, units and names are written, and which numbers count as 0
pieces, writing, reproduction_code            HTML, files, and code that reproduces a solution
"""
