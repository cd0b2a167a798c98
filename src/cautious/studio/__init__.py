"""The studio: paint a grid or open a problem in the browser, drag the caution, watch the behaviour change.

It makes the same calls of the library as the command line. A page states its whole problem in every message, so a lost
connection loses nothing. Starlette and uvicorn (extra ``studio``) are loaded only by ``server``.

    scenario              what a page can state, and the problem it means
    messages, answers     what comes from a page, and what it is told
    session, websocket    the solving and the conversation of one page
    server, guard         the server, and who may use it
"""
