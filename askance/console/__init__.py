"""Console in the browser for operators and analysts: `askance console`.

The process runs on its caller's machine, calls the aggregator with the caller's key, and makes
every page and chart itself. A browser gets HTML, one file of styles and one small script of ours,
and no key and no token of the aggregator.

`server` listens, `application` joins pages to routes, bounds requests and sets headers, `routes`
says what a route is and checks its requests, `sessions` knows who has logged in, `link` calls the
aggregator, `live` sends what changes. A module of `pages` is a page; docs/adr/0065 says
how one is added.
"""
