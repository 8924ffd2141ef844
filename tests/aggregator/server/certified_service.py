"""A service whose devices show certificates, with its outer process, for tests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from askance_aggregator.server.devices import (
    AggregatorServer,
    CertifiedListener,
    EnrolmentVerifier,
    ServerParts,
    Settings,
)
from askance_aggregator.server.outer.settings import OuterSettings
from askance_aggregator.server.outer.supervisor import InnerSocket, OuterProcess, listen_at
from askance_aggregator.server.process.certificates import (
    Certified,
    devices_authority,
    self_made,
)
from askance_aggregator.server.process.device_authority import DeviceAuthority
from askance_aggregator.server.process.health import Health
from askance_aggregator.store import Store
from askance_client.addresses import Address

LIFE_S = 1_000


@dataclass(frozen=True, slots=True)
class ServiceKeys:
    """Certificates and keys of a service that is started again."""

    ca: Certified
    server: Certified
    of_devices: Certified

    @classmethod
    def made(cls, now_s: int) -> ServiceKeys:
        """Make an authority, the server's certificate, and the authority of devices."""
        return cls(*self_made([], now_s), devices_authority(now_s))


class CertifiedService:
    """A service and its outer process, until `stop`.

    Args:
      store: of its devices.
      enrolment: verifies tokens.
      now_s: the time in Unix seconds.
      settings: of the service.
      needed: False: devices without a certificate may call where analysts do.
      life_s: of a device's certificate.
      advertised: where devices are told to call; None: at the host that they know.
      connect_every_ms: between two check-ins by Connect; 0: there are none.
      origins: of pages that check in so.
      keys: of a service before, which a later one goes on with; None: new ones.
      ports: where all others call, and where devices with certificates do; 0: a free one.
    """

    def __init__(
        self,
        store: Store,
        enrolment: EnrolmentVerifier,
        now_s: Callable[[], int],
        *,
        settings: Settings,
        needed: bool = True,
        life_s: int = LIFE_S,
        advertised: Address | None = None,
        connect_every_ms: int = 0,
        origins: tuple[str, ...] = (),
        keys: ServiceKeys | None = None,
        ports: tuple[int, int] = (0, 0),
    ) -> None:
        self.keys = keys or ServiceKeys.made(now_s())
        self.ca, server = self.keys.ca, self.keys.server
        self.of_devices = self.keys.of_devices
        self.issuer = authority_of(self.of_devices, now_s, life_s)
        credentials = grpc.ssl_server_credentials(
            [(server.key, server.certificate)],
            self.of_devices.certificate,
            require_client_auth=True,
        )
        outer = OuterSettings(
            server.certificate.decode(),
            server.key.decode(),
            connect=connect_every_ms > 0,
            origins=origins,
            devices=not needed,
        )
        with ExitStack() as held:
            listening = held.enter_context(listen_at(Address("127.0.0.1", ports[0])))
            inner = held.enter_context(InnerSocket())
            certified = CertifiedListener(
                credentials, self.issuer, now_s, inner, needed, advertised, connect_every_ms
            )
            health = Health()  # the outer process waits 5 s for its first word
            services = (lambda server, _: health.add_to(server),)
            parts = ServerParts(certified=certified, enrolment=enrolment, services=services)
            self.server = held.enter_context(
                AggregatorServer.start(store, port=ports[1], settings=settings, parts=parts)
            )
            self.outer = held.enter_context(OuterProcess(listening, inner, outer))
            self.address = f"127.0.0.1:{listening.getsockname()[1]}"
            self._held = held.pop_all()

    def stop(self) -> None:
        """End both."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def authority_of(
    made: Certified, now_s: Callable[[], int], life_s: int = LIFE_S
) -> DeviceAuthority:
    """An issuer with a key that was just made."""
    key = load_pem_private_key(made.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    certificates = x509.load_pem_x509_certificates(made.certificate)
    return DeviceAuthority(certificates, key, life_s=life_s, now_s=now_s)
