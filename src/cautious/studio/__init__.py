"""The studio: paint a grid or open a problem in the browser, drag the caution, watch the behaviour change.

A second thin shell over the calls the command line uses. A page states its whole problem in every message, so a lost
connection loses nothing; a ``Session`` answers one page at a time. Starlette and uvicorn (extra ``studio``) are loaded
only by ``server``.
"""
