"""The web lab: pages on which models are looked into, in a browser, at 127.0.0.1 only.

server      the application: pages, files, headers; `serve` runs it
shelf       the runs it was opened with
answers     what goes to the browser: JSON, or arrays as bytes
bundle      all of it as one HTML file that works from disk
pages       the list of pages; each is a file here, a script in static/pages, and texts in i18n
"""
