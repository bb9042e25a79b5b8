"""The devices of the machine, one line each."""

from __future__ import annotations

from collections import Counter

import streamlit as st

from core.devices.device import Device
from core.devices.registry import calibrated_cards, list_devices, open_meter
from core.plots.units import size
from core.runs.home import DataHome
from core.runs.quarantine import quarantines
from core.runs.room import no_room
from core.runs.rows import RunRow
from core.spec.cards import all_cards
from core.spec.errors import NoSuchDevice
from core.ui.text import plain


def device_lines(home: DataHome, queue: list[RunRow]) -> None:
    """Each device with index, name, temperature, utilisation, memory in use, and what runs or waits on it."""
    devices = list_devices()
    closed = quarantines(home)
    rows = [_line(device, queue) for device in devices.found]
    for device, row in zip(devices.found, rows, strict=True):
        if device.id in closed:
            row["now"] = f"{row['now']} · quarantine"
            st.warning(plain(f"{device.name}: {closed[device.id].text}", 400), icon=":material/block:")
    reason = no_room(home)
    if reason:
        st.warning(plain(reason, 400), icon=":material/hard_drive:")
    st.dataframe(
        rows,
        hide_index=True,
        column_config={
            "memory": st.column_config.ProgressColumn("memory in use", min_value=0.0, max_value=1.0, format="percent"),
        },
    )
    cards = len(all_cards(calibrated_cards()))
    if devices.no_cuda_reason:
        st.info(
            f"No GPU: {devices.no_cuda_reason}. Runs on the CPU work the same way, and {cards} cards can be simulated.",
            icon=":material/info:",
        )
    else:
        st.caption(f"{cards} more cards can be simulated, without a GPU.")


def _line(device: Device, queue: list[RunRow]) -> dict[str, object]:
    states = Counter(row.state == "queued" for row in queue if row.device == device.id)
    running, waiting = states[False], states[True]
    work = " · ".join(filter(None, (f"running {running}" if running else "", f"{waiting} waiting" if waiting else "")))
    line: dict[str, object] = {
        "device": "CPU" if device.kind == "cpu" else f"[{device.index}]",
        "name": device.name,
        "temperature": "–",
        "utilisation": "–",
        "memory": None,
        "used / total": f"unknown / {size(device.total_bytes)}",
        "now": work or "idle",
    }
    try:
        meter = open_meter(device)
    except NoSuchDevice as error:
        return line | {"now": str(error)}
    used, condition = meter.read().device_used, meter.condition()
    if condition.temperature_c is not None:
        line["temperature"] = f"{condition.temperature_c} °C"
    if condition.utilisation_percent is not None:
        line["utilisation"] = f"{condition.utilisation_percent} %"
    line["used / total"] = f"{size(used)} / {size(device.total_bytes)}"
    if used is not None and device.total_bytes:
        line["memory"] = used / device.total_bytes
    return line
