"""CUDA graphs of a model as it is: captured once for each kind of call, replayed after that.

``calls`` decides for each call whether it is replayed; ``arguments`` reads what it is given;
``weights`` tells whether the model is still the one that was captured; ``modes`` asks torch how it
would compute; ``watch`` looks on while a model runs as it is, for what a replay would leave out;
``inference`` and ``training`` capture and replay; ``device`` is the GPU; ``reasons`` says why not.
``blocks`` does all that for the blocks of a model that cannot be captured as a whole.
"""

from pitstop.parts.graphs.blocks import graphed, graphs_of_blocks
from pitstop.parts.graphs.calls import Graphs
from pitstop.parts.graphs.reasons import Reason

__all__ = ["Graphs", "Reason", "graphed", "graphs_of_blocks"]
