"""One HTML file with everything in it: figures that can be zoomed, tables, findings. It opens without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from core.explain.breakdown import breakdown
from core.explain.difference import difference
from core.explain.document import explained
from core.explain.evidence import Evidence
from core.plots.breakdown import bars, waterfall
from core.plots.tables import differences_table, peaks_table, subtitle_of, title_of
from core.plots.timeline import timeline
from core.trace.trace import METRICS

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; font-size: 14px; }
td, th { border: 1px solid #ddd; padding: 4px 8px; text-align: left; }
.scroll { overflow-x: auto; } pre { white-space: pre-wrap; background: #f6f6f6; padding: 8px; } .note { color: #666; }
"""

SHOWN = ("device_used", "reserved", "allocated")


def html_report(evidence: Sequence[Evidence], link: str = "") -> str:
    """The page of these runs. `link`: where the same view is in the app, shown where there is one."""
    traces = [one.trace for one in evidence]
    found = [breakdown(one) for one in evidence]
    said = explained(evidence, found)
    on_card = [metric for metric in SHOWN if any(metric in trace.series for trace in traces)]
    metrics = on_card if any(str(t.spec.get("device")) != "cpu" for t in traces) and on_card else ["host_rss"]
    body = [f"<h1>{escape(title_of(traces))}</h1>", f"<p class=note>{escape(subtitle_of(traces))}</p>"]
    body += [
        f"<p><b>{escape(t.run_id)}</b> {escape(t.ended_as)}</p><pre>{escape(str(t.error['message']))}</pre>"
        for t in traces
        if t.error
    ]
    shown = [metric for metric in metrics if metric in METRICS]
    body += ["<h2>Over the steps</h2>", _figure("timeline", timeline(traces, shown, "step"))]
    body += ["<h2>Where the memory is</h2>", _figure("breakdown", bars(found))]
    if len(found) == 2:
        body += [
            f"<h2>{escape(found[0].run_id)} − {escape(found[1].run_id)}</h2>",
            _figure("difference", waterfall(difference(found[0], found[1]))),
        ]
    if said["findings"]:
        body.append("<h2>What explains it</h2>")
        body += [f"<p><b>{escape(one['run'])}</b> {escape(one['text'])}{_change(one)}</p>" for one in said["findings"]]
    body += ["<h2>Peaks</h2>", _table(peaks_table(traces)), "<h2>Specs</h2>", _table(differences_table(traces, True))]
    if link:
        body.append(f'<p class=note>In the app: <a href="{escape(link)}">{escape(link)}</a></p>')
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(title_of(traces))} · VRAMscope</title><style>{STYLE}</style>"
        f"<script>{get_plotlyjs()}</script></head><body>{''.join(body)}</body></html>"
    )


def _figure(name: str, figure: go.Figure) -> str:
    figure.update_layout(template="plotly_white")
    return str(figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config={"displaylogo": False}))


def _change(finding: Mapping[str, object]) -> str:
    change = finding["change"]
    if not isinstance(change, Mapping):
        return ""
    return f" <span class=note>Try {escape(', '.join(f'{k}={v}' for k, v in change.items()))}.</span>"


def _table(rows: Sequence[Mapping[str, str]]) -> str:
    if not rows:
        return "<p class=note>They do not differ.</p>"
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    lines = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row.values())}</tr>" for row in rows)
    return f"<div class=scroll><table><tr>{head}</tr>{lines}</table></div>"
