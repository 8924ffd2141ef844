"""Devices: the register, paged by ordinal, with search, tags, revocation and restoration.

Silent devices are counted, by their last call and by what they owe to rounds, and not named. No
page has a value that a device holds or has answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from starlette.responses import Response

from askance.console.routes import ConsoleRoute, Visit
from askance_aggregator.analyst import CallRefused
from askance_aggregator.operators import OperatorClient
from askance_aggregator.reports.texts import counted
from askance_aggregator.store.register import Affected, DeviceSelection
from askance_aggregator.store.tagged_population import checked_tags
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text

PAGE = 50  # devices of one page
_MAX_ORDINAL = (1 << 63) - 2
_SEE = ("Operators/Devices",)
_COUNT = ("Operators/CountDevices",)
_SILENCE = ("Operators/Silence",)
Change = Callable[[OperatorClient, DeviceSelection], Affected]


async def _devices(visit: Visit) -> Response:
    """Return a page of devices, by ordinal; one more is asked for, to know if there is a next."""
    if visit.query("id"):
        return await _device(visit, visit.query("id"))
    tags = checked_tags(visit.query("tags").split())
    start = visit.number("start", 0, 0, _MAX_ORDINAL)
    listed = visit.link.operator.devices
    found = await visit.call(listed, tags, start - 1, PAGE + 1)
    return await visit.page(
        "devices.html",
        devices=found[:PAGE],
        id="",
        tags=" ".join(tags),
        start=start,
        next=found[PAGE].ordinal if len(found) > PAGE else None,
        previous=max(start - PAGE, 0) if start and not tags else None,
    )


async def _device(visit: Visit, text: str) -> Response:
    """Return the page of one device; of none, if the register has none of that id."""
    (device_id,) = _ids([text])
    try:
        found = [await visit.call(visit.link.operator.device, device_id)]
    except CallRefused as error:
        if error.reason != "unknown-device":
            raise
        found = []
    return await visit.page(
        "devices.html", devices=found, id=text, tags="", start=0, next=None, previous=None
    )


def _change(verb: str, past: str, make: Change) -> Callable[[Visit], Awaitable[Response]]:
    """Return the endpoint that revokes or restores devices, once their number was confirmed."""
    # A form without that number, or with another than there is by now, is answered with a page that
    # asks for it.

    async def changed(visit: Visit) -> Response:
        selection, operator = _selection(visit), visit.link.operator
        found = await visit.call(operator.count, selection)
        fits, stays = found.active, found.revoked
        if verb == "restore":
            fits, stays = stays, fits
        expected = visit.form.text("confirmed")
        if expected == str(fits.total):
            affected = await visit.call(make, operator, selection)
            return _changed(visit, f"{past} {_affected(affected)}.")
        return await visit.page(
            "devices_confirm.html",
            verb=verb,
            past=past.lower(),
            selection=selection,
            number=fits.total,
            what=_affected(fits),
            stays=_affected(stays) if stays.total else "",
            has_changed=bool(expected),
            back=_back(visit),
        )

    return changed


async def _tag(visit: Visit) -> Response:
    selection = _selection(visit)
    add, remove = visit.form.text("add").split(), visit.form.text("remove").split()
    affected = await visit.call(visit.link.operator.tag, selection, add, remove)
    return _changed(visit, f"Changed the tags of {counted(affected.devices, 'device')}.")


def _affected(affected: Affected) -> str:
    devices, gateways = counted(affected.devices, "device"), counted(affected.gateways, "gateway")
    return f"{devices}, {gateways}" if affected.gateways else devices


def _selection(visit: Visit) -> DeviceSelection:
    """Return the devices that a form has selected; raise InvalidParameter if there is none."""
    # A form selects the devices that have all of its tags, if it says so, or those of its ids.
    tags = visit.form.text("all_with").split()
    if tags:
        return DeviceSelection(tags=checked_tags(tags))
    texts = visit.form.all("id")
    if not texts:
        raise InvalidParameter("devices: expected one or more selected, got none")
    return DeviceSelection(ids=_ids(texts))


def _ids(texts: Sequence[str]) -> tuple[bytes, ...]:
    """Return ids of devices; raise InvalidParameter if one is not in hexadecimal."""
    try:
        return tuple(map(bytes.fromhex, texts))
    except ValueError:
        raise InvalidParameter(
            f"id: expected hexadecimal digits, got {value_text(' '.join(texts)[:80])}"
        ) from None


def _changed(visit: Visit, notice: str) -> Response:
    """Return to the page of devices on which the form stood."""
    return visit.redirect(_back(visit), notice)


def _back(visit: Visit) -> str:
    """Return the address of the page of devices on which a form stood."""
    back = visit.form.text("back")
    return back if back.startswith("/devices?") else "/devices"


async def _silence(visit: Visit) -> Response:
    found = await visit.call(visit.link.operator.silence)
    return await visit.page("silence.html", found=found)


async def _silence_table(visit: Visit) -> Response:
    found = await visit.call(visit.link.operator.silence)
    headers = {"Content-Disposition": 'attachment; filename="silence.csv"'}
    return Response(found.to_csv(), headers=headers, media_type="text/csv; charset=utf-8")


ROUTES = (
    ConsoleRoute("/devices", _devices, _SEE, "Devices", is_listed=True),
    ConsoleRoute("/devices/tag", _tag, ("Operators/TagDevices",), "Tag devices", "POST"),
    ConsoleRoute(
        "/devices/revoke",
        _change("revoke", "Revoked", OperatorClient.revoke),
        (*_COUNT, "Operators/RevokeDevices"),
        "Revoke devices",
        "POST",
    ),
    ConsoleRoute(
        "/devices/restore",
        _change("restore", "Restored", OperatorClient.restore),
        (*_COUNT, "Operators/RestoreDevices"),
        "Restore devices",
        "POST",
    ),
    ConsoleRoute("/silence", _silence, _SILENCE, "Silence", is_listed=True),
    ConsoleRoute("/silence.csv", _silence_table, _SILENCE, "Silence"),
)
