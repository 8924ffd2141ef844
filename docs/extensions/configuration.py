"""The directive `configuration`: the commented file that a party's `init` command writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

_KEY = bytes(range(32))  # stands for an analyst's public key


def _aggregator() -> str:
    from askance_aggregator.server.process.home import configuration_text
    from askance_client.addresses import Address

    listen, metrics = Address.of("127.0.0.1:7443"), Address.of("127.0.0.1:9464")
    return configuration_text(listen, metrics, _KEY)


def _device() -> str:
    from askance_client.addresses import Address
    from askance_client.cli.template import Given, device_toml

    return device_toml(Given(Address.of("127.0.0.1:7443"), Path("ca.pem"), analyst=(_KEY,)))


FILES: dict[str, Callable[[], str]] = {"aggregator": _aggregator, "device": _device}


class Configuration(Directive):
    """Show a configuration file.

    Its argument is a key of `FILES`.
    """

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        """Return the file as a block."""
        return [nodes.literal_block(text=FILES[self.arguments[0]](), language="toml")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_directive("configuration", Configuration)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
