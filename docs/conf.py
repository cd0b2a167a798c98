"""Settings of Sphinx for the site: the pages of this folder, three pages of the root, notebooks and the gallery.

Build it from the root of a checkout: make docs
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_site"))
# examples run in separate processes, which need the scraper too
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE / "_site"), os.environ.get("PYTHONPATH")]))

project = "cautious"
author = "the cautious developers"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "access",
    "mathml",
    "site_pages",
]
source_suffix = {".md": "myst-nb", ".rst": "restructuredtext", ".page": "myst-nb"}
# the gallery also writes its scripts as notebooks for download
exclude_patterns = ["_build", "_site", "gallery", "auto_gallery/*.ipynb"]
root_doc = "index"
nitpicky = True
# types of other packages are documented on other sites, and this site is built offline
nitpick_ignore_regex = [("py:.*", ".*")]

html_theme = "furo"
html_title = "cautious"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
# of the package accessible-pygments, which the theme brings: 4.5 to 1 and more on their backgrounds
pygments_style = "a11y-light"
pygments_dark_style = "a11y-dark"
highlight_language = "text"

# formulas are written $...$, as GitHub reads them, and translated while the site is built
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"

# headings are link targets under the same names as on GitHub
myst_heading_anchors = 4

# docstrings describe shapes and types, so annotations would repeat them
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 88
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_attr_annotations = False

# every build executes the notebooks, and a cell that fails stops the build
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "image_scrapers": ("gallery_figures.scrape",),
    "within_subsection_order": "gallery_figures.place",
    # pyplot is never used, so nothing has to be reset
    "reset_modules": (),
    "capture_repr": (),
    # examples run again even if the script did not change, because the library may have changed
    "run_stale_examples": True,
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "show_signature": False,
    "download_all_examples": False,
    "write_computation_times": False,
    "inspect_global_variables": False,
    "min_reported_time": 1e9,
    # the number of scripts at once is that of sphinx-build -j
    "parallel": True,
}
