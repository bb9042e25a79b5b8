"""`devices` and `doctor`: what is here to run on, and what would keep a run from working."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from core.cli.output import JsonFlag, print_json, print_table, size
from core.devices.registry import calibrated_cards, list_devices, open_meter
from core.runs.environment import child_environment
from core.runs.home import open_home
from core.runs.quarantine import quarantines
from core.runs.settings import Environment, read_settings
from core.runs.start import supervisor_runs
from core.spec.cards import all_cards
from core.spec.errors import DataFolderError, NoSuchDevice

PACKAGES = ("torch", "transformers", "deepspeed")

PROBE = f"""
import json, platform
from importlib.metadata import PackageNotFoundError, version
found = {{"python": platform.python_version()}}
for name in {PACKAGES!r}:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        found[name] = None
print(json.dumps(found))
"""


def device_reports() -> list[dict[str, Any]]:
    """Each device with what it holds now; bytes, degrees and percent, null where the driver does not say."""
    reports = []
    try:
        closed = quarantines(open_home())
    except DataFolderError:
        closed = {}  # no data folder, so nothing was quarantined from it
    for device in list_devices().found:
        report: dict[str, Any] = {
            "id": device.id,
            "kind": device.kind,
            "index": device.index,
            "name": device.name,
            "total_bytes": device.total_bytes,
            "used_bytes": None,
            "temperature_c": None,
            "utilisation_percent": None,
            "problem": closed[device.id].text if device.id in closed else None,
        }
        try:
            meter = open_meter(device)
            condition = meter.condition()
            report |= {
                "used_bytes": meter.read().device_used,
                "temperature_c": condition.temperature_c,
                "utilisation_percent": condition.utilisation_percent,
            }
        except NoSuchDevice as error:
            report["problem"] = str(error)
        reports.append(report)
    return reports


def devices(
    simulated: Annotated[bool, typer.Option("--simulated", help="List the cards that can be simulated.")] = False,
    json_: JsonFlag = False,
) -> None:
    """List the devices of this machine, or the cards that can be simulated on it."""
    if simulated:
        _cards(json_)
        return
    found, reports = list_devices(), device_reports()
    if json_:
        print_json({"devices": reports, "driver": found.driver, "no_cuda_reason": found.no_cuda_reason})
        return
    rows = []
    for report in reports:
        name = "cpu" if report["kind"] == "cpu" else f"cuda:{report['index']}"
        condition = [
            f"{report['temperature_c']} °C" if report["temperature_c"] is not None else "",
            f"{report['utilisation_percent']} %" if report["utilisation_percent"] is not None else "",
        ]
        used = f"{size(report['used_bytes'])} of {size(report['total_bytes'])}"
        rows.append([name, report["name"], *condition, used, report["id"] if report["kind"] == "cuda" else ""])
    print_table(["device", "name", "temperature", "utilisation", "memory used", "id"], rows)
    for report in reports:
        if report["problem"]:
            print(f"{report['name']}: {report['problem']}")
    if found.no_cuda_reason:
        print(f"no GPU: {found.no_cuda_reason}")


def _cards(json_: bool) -> None:
    cards = all_cards(calibrated_cards())
    if json_:
        print_json({"cards": [asdict(card) | {"id": card.device_id} for card in cards]})
        return
    rows = [
        [
            card.device_id,
            card.name,
            f"{size(card.memory_bytes)} ({card.memory_known})",
            card.capability,
            str(card.sm_count),
            f"{size(card.libraries.context)} ({card.context_known})",
        ]
        for card in cards
    ]
    print_table(["device", "card", "memory", "capability", "SMs", "CUDA context"], rows)


def environment_report(environment: Environment) -> dict[str, Any]:
    """Versions in one environment, asked of its own interpreter; `problem` says why that failed."""
    command = [environment.interpreter or sys.executable, "-c", PROBE]
    try:
        variables = child_environment(*environment.overlays)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=variables, check=True)
        return {"name": environment.name, **json.loads(done.stdout), "problem": None}
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return {"name": environment.name, "problem": f"{command[0]} does not answer: {error}"}


def doctor(json_: JsonFlag = False) -> None:
    """Check this installation: versions, devices, data folder, environments."""
    found, home = list_devices(), open_home()
    settings = read_settings(home)
    environments = [environment_report(e) for e in (Environment("default"), *settings.environments.values())]
    versions = {name: _version(name) for name in (*PACKAGES, "streamlit", "plotly", "pyarrow", "nvidia-ml-py")}
    report = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": versions,
        "devices": device_reports(),
        "driver": found.driver,
        "no_cuda_reason": found.no_cuda_reason,
        "data_folder": str(home.root),
        "supervisor": "running" if supervisor_runs(home) else "not running (the next run starts it)",
        "environments": environments,
    }
    if json_:
        print_json(report)
        return
    for name in ("python", "platform", "data_folder", "supervisor"):
        print(f"{name.replace('_', ' '):12} {report[name]}")
    print(f"{'driver':12} {found.driver or found.no_cuda_reason}")
    for name, number in sorted(versions.items()):
        print(f"{name:12} {number or 'not installed'}")
    print("environments")
    for one in environments:
        said = one["problem"] or ", ".join(f"{name} {one[name] or '–'}" for name in ("python", *PACKAGES))
        print(f"  {one['name']:10} {said}")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
