"""Module tree: what each module of the model did in the inspected step."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.core.evidence import Evidence

MOST_NODES = 400  # a page with more is slow to open; the smallest are left out


@dataclass(frozen=True, slots=True)
class Node:
    """One module: how often it ran, and the time and FLOPs of all that ran inside it."""

    path: str
    kind: str
    depth: int
    calls: int
    ms: float
    flops: int
    unused: bool
    shapes: str


def module_tree(evidence: Evidence) -> list[Node]:
    """The modules in the order they first ran, each below its caller."""
    ms, flops = _inclusive(evidence)
    first: dict[tuple[int, str], int] = {}  # caller's node and own path -> node
    node_of: list[int] = []
    nodes: list[list[float]] = []  # calls, ms, flops, depth, the first call
    for place, call in enumerate(evidence.calls):
        above = node_of[call.parent] if call.parent >= 0 else -1
        node = first.setdefault((above, call.path), len(nodes))
        if node == len(nodes):
            nodes.append([0, 0.0, 0, nodes[above][3] + 1 if above >= 0 else 0, place])
        node_of.append(node)
        nodes[node][0] += 1
        nodes[node][1] += ms[place]
        nodes[node][2] += flops[place]
    least = sorted((node[1] for node in nodes), reverse=True)[: MOST_NODES + 1][-1:] or [0.0]
    floor = least[0] if len(nodes) > MOST_NODES else -1.0
    order = sorted(range(len(nodes)), key=lambda node: nodes[node][4])
    return list(_described(evidence, [nodes[node] for node in order if nodes[node][1] > floor]))


def _described(evidence: Evidence, nodes: list[list[float]]) -> Iterator[Node]:
    for calls, ms, flops, depth, place in nodes:
        call = evidence.calls[int(place)]
        yield Node(
            call.path, call.kind, int(depth), int(calls), ms, int(flops), call.unused, call.shapes
        )


def _inclusive(evidence: Evidence) -> tuple[dict[int, float], dict[int, int]]:
    """Milliseconds and FLOPs by call, what it calls included; forward and backward together."""
    ms: dict[int, float] = defaultdict(float)
    flops: dict[int, int] = defaultdict(int)
    for operation in evidence.operations:
        micros = operation.micros if operation.device_micros is None else operation.device_micros
        ms[operation.call] += micros / 1e3
        flops[operation.call] += operation.flops
    for place in range(len(evidence.calls) - 1, -1, -1):  # a caller comes before its callees
        above = evidence.calls[place].parent
        ms[above] += ms[place]
        flops[above] += flops[place]
    return ms, flops
