"""Whether a script is still going to train, told by the code ahead of it."""

import contextlib
import sys
from types import SimpleNamespace

import pytest

from pitstop.profile.steps.ahead import will_train

SCRIPTS = {
    "latents are cached before the training": (
        True,
        """
def cache():
    now()
def train(model):
    for _ in range(3):
        loss = model()
        loss.backward()
cache()
train(None)
""",
    ),
    "a progress bar has a method of the same name as one that trains": (
        False,
        """
import collections
class Model:
    def update(self):
        self.loss().backward()
bar = collections.Counter()
for _ in range(1):
    now()
    bar.update("a")
""",
    ),
    "a method of the user's own is followed": (
        True,
        """
class Model:
    def update(self):
        self.loss().backward()
model = Model()
now()
model.update()
""",
    ),
    "only the other branch trains": (
        False,
        """
def train(model):
    model().backward()
def main(training):
    if training:
        train(None)
    else:
        now()
main(False)
""",
    ),
    "an evaluation that returns before the training": (
        False,
        """
def validate():
    for _ in range(1):
        now()
def main(evaluate):
    if evaluate:
        validate()
        return
    optimizer.step()
main(True)
""",
    ),
    "a method of an object trains, several calls away": (
        True,
        """
class Trainer:
    def __init__(self):
        now()
    def run(self):
        self.epoch()
    def epoch(self):
        optimizer.step()
def main():
    trainer = Trainer()
    trainer.run()
    return
try:
    main()
except NameError:
    pass
""",
    ),
    "a library is about to train": (True, "trainer.fit(now)\n"),
    "what is printed trains nothing, though a method of that name does": (
        False,
        """
class Console:
    def print(self):
        self.loss.backward()
now()
print("done")
""",
    ),
    "training is over": (
        False,
        """
def train():
    "loss.backward()"
try:
    train()
finally:
    now()
""",
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_code_ahead_tells(name, tmp_path, monkeypatch):
    expected, text = SCRIPTS[name]
    path = tmp_path / "script.py"
    path.write_text(text)
    found = []
    module = type(sys)("script")
    module.__file__ = str(path)
    module.now = lambda: found.append(will_train(sys._getframe(1)))
    module.trainer = SimpleNamespace(fit=lambda now: now())
    monkeypatch.setitem(sys.modules, "script", module)
    monkeypatch.setattr(
        "pitstop.profile.steps.ahead.origin_of", lambda each: "user" * (each == str(path))
    )
    with contextlib.suppress(Exception):  # the training itself is none
        exec(compile(text, str(path), "exec"), vars(module))
    assert found == [expected]
