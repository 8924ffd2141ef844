"""An application whose user answers studies from the application's own database.

    python examples/instrumented_app.py people.db 7 127.0.0.1:7443 ANALYST_KEY TOKEN service/ca.pem

The schema is in people.toml, beside people.db; the device's folder is made there as well. It starts
without a network too. The token is used until the device is enrolled, and ignored afterwards. The
last argument is the aggregator's authority; without it the device speaks plain text, on loopback.
"""

import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from askance_client import DeviceClient, Policy


def main() -> None:
    """Answer until SIGTERM; the row is read anew for every new question."""
    database, user, aggregator, analyst, token, *authority = sys.argv[1:]

    def record() -> dict[str, object]:
        with closing(sqlite3.connect(database)) as connection:
            connection.row_factory = sqlite3.Row
            query = "SELECT smokes FROM people WHERE id = ?"
            return dict(connection.execute(query, (user,)).fetchone())

    client = DeviceClient(
        Path(database).parent / f"device-{user}",
        aggregator=aggregator,
        records=record,
        schema=Path(database).with_suffix(".toml"),
        policy=Policy(frozenset({bytes.fromhex(analyst)}), life_nano_nats=8 * 10**9),
        token=token,
        ca=Path(authority[0]) if authority else None,
    )
    with client:
        signal.signal(signal.SIGTERM, lambda *_: client.stop())
        client.run()
        print(client.status())


if __name__ == "__main__":
    main()
