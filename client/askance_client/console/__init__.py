"""Owner's page: a device's budgets, questions, studies and policy in a browser on the same machine.

The page shows what the owner's operations return and asks for nothing else; it decides nothing.
`command` runs it and has the routes, `server` reads and writes HTTP on loopback, `session` is the
login of one browser, `pages` and `parts` write HTML, `markup` escapes. No script is
sent. Nothing but the command `device console` imports the package; it is no part of a running
device, and is counted apart from the trusted base (docs/trusted-base.md).
"""

from askance_client.console.command import run_console

__all__ = ["run_console"]
