"""``solution.explore()``: the page of the studio in a notebook, with the kernel in place of a server."""

import base64
import json
import queue
import time

import pytest

import cautious as ca
from cautious.studio.explorer import IMPORTED, whole_page
from cautious.studio.server import FILES
from studio.browser import LONGEST, shown

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")

# what the front end of a notebook is to a widget
HOST = """async ([code, state]) => {
  const listeners = [];
  const model = {
    get: (name) => state[name],
    on: (_, listener) => listeners.push(listener),
    off: () => {},
    send: (content, _, buffers) => {
      const bytes = (buffers ?? []).map((one) => btoa(String.fromCharCode(...new Uint8Array(one))));
      window.toKernel(JSON.stringify([content, bytes]));
    },
  };
  window.fromKernel = (content, text) => {
    const bytes = text.map((one) => Uint8Array.from(atob(one), (sign) => sign.charCodeAt(0)));
    for (const listener of listeners) listener(content, bytes.map((one) => new DataView(one.buffer)));
  };
  const widget = await import(`data:text/javascript;base64,${btoa(code)}`);
  window.leave = widget.default.render({ model, el: document.body });
}"""


class Notebook:
    """A page that hands messages on between the widget's part in the browser and its part in Python."""

    def __init__(self, page, widget):
        self.page, self.widget, self.messages = page, widget, queue.Queue()
        # threads of the kernel may not call the browser
        widget.send = lambda content, buffers=None: self.messages.put((content, buffers or []))
        page.expose_function("toKernel", self.hear)
        page.evaluate(HOST, [widget._esm, {"page": widget.page, "height": widget.height}])

    def hear(self, text):
        content, buffers = json.loads(text)
        self.widget._handle_custom_msg(content, [base64.b64decode(one) for one in buffers])

    @property
    def frame(self):
        return self.page.frame_locator("iframe")

    def until(self, selector, text):
        """Hand messages on until an element of the frame reads like this."""
        end = time.monotonic() + LONGEST / 1000
        while time.monotonic() < end:
            self.page.wait_for_timeout(20)
            while not self.messages.empty():
                content, buffers = self.messages.get()
                texts = [base64.b64encode(one).decode() for one in buffers]
                self.page.evaluate("([content, texts]) => window.fromKernel(content, texts)", [content, texts])
            if (self.frame.locator(selector).text_content() or "").startswith(text):
                return
        raise AssertionError(f"{selector} reads {self.frame.locator(selector).text_content()!r}, not {text!r}")


@pytest.fixture
def notebook(browser):
    pytest.importorskip("anywidget", reason="extra notebook")
    context, problems = browser.new_context(viewport={"width": 1000, "height": 900}), []
    page = context.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield lambda widget: Notebook(page, widget)
    context.close()
    assert problems == []


def test_the_page_has_all_of_its_files_in_it():
    page = whole_page()
    assert 'src="main.js"' not in page
    assert 'href="' not in page.replace('href="data:', "")
    modules = [name for name in FILES if name.endswith(".js")]
    assert all(f'"studio/{name}": "data:' in page for name in modules)
    # nothing is left that a page without a server could not load
    for name in modules:
        content = IMPORTED.sub("", FILES[name].read_text())
        assert '"./' not in content, name


def test_a_solution_is_explored_and_its_caution_changed(notebook):
    problem = ca.worlds.problem("maze")
    shell = notebook(ca.solve(problem).explore())
    shell.until("#return", shown(ca.solve(problem).expected_return))
    assert shell.frame.locator("#example").locator("option").first.inner_text() == "solution"
    shell.frame.locator("#caution-number").fill("200")
    shell.frame.locator("#caution-number").press("Tab")
    shell.until("#return", shown(ca.solve(problem.with_caution(200.0)).expected_return))
    assert shell.frame.locator("#map").bounding_box()["width"] > 300
    # another view of the same widget is a conversation of its own, and leaving ends it
    shell.page.evaluate("window.leave()")
    shell.page.wait_for_timeout(200)


def test_models_are_opened_in_a_notebook_too(notebook):
    problem = ca.Problem(ca.worlds.queue(), constraints=[ca.Exposure(list(range(8, 16)), name="crowd") <= 0.1])
    shell = notebook(ca.solve(problem).explore(height=700))
    shell.until("#return", shown(ca.solve(problem).expected_return))
    table = b"state,action,next_state,probability,reward\na,go,b,1,1\nb,go,a,1,0\n"
    shell.frame.locator("#files summary").click()
    shell.frame.locator("#bring-open").click()
    shell.frame.locator("#bring-files").set_input_files({"name": "way.csv", "mimeType": "text/csv", "buffer": table})
    shell.frame.locator("#bring-discount").fill("0.5")
    shell.frame.locator("#bring-send").click()
    shell.until("#title", "way: 2 states")


def test_what_cannot_be_explored_is_refused(tmp_path, monkeypatch):
    solution = ca.solve(ca.worlds.problem("queue"))
    solution.save(tmp_path / "queue.npz")
    with pytest.raises(ca.InputError, match="came from a file and does not know its problem"):
        ca.load(tmp_path / "queue.npz").explore()
    with pytest.raises(ca.InputError, match="2,000 steps; the studio shows at most 1,000"):
        ca.solve(ca.Problem(ca.worlds.queue(), horizon=2000)).explore()
    monkeypatch.setitem(__import__("sys").modules, "anywidget", None)
    with pytest.raises(ca.MissingExtraError, match=r"cautious\[notebook\]"):
        solution.explore()
