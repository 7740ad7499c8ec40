"""Numbers read back from a recording."""

import json
from array import array

from pitstop.core.evidence import Evidence
from pitstop.tune.guard.readings import read
from pitstop.tune.plan import OUTPUTS, VALUES


def test_each_output_has_its_own_values(tmp_path):
    index = [{"module": "A", "shape": [2], "values": 2}, {"module": "B", "shape": [1], "values": 1}]
    (tmp_path / OUTPUTS).write_text(json.dumps(index))
    (tmp_path / VALUES).write_bytes(array("f", [1, 2, 3]).tobytes())
    found = read(tmp_path, Evidence()).outputs
    assert [list(each.values) for each in found] == [[1, 2], [3]]
