"""The source without what nobody needs, where that is plain; elsewhere it stays as it is."""

import pytest

from pitstop.scan.edits import apply_edits
from pitstop.scan.source import Source
from pitstop.tune.left_out.edits import guarded, sunk, unread
from pitstop.tune.runs.patched import make_tree


def after(edits, text):
    return apply_edits(text, edits) if edits else None


def function(*lines):
    return "def f(net, critic, x, step):\n" + "".join(f"    {line}\n" for line in lines)


WEIGHT = "w = 0.0 if step < 9 else 1.0"


def test_a_term_stands_behind_its_weight():
    text = function(
        WEIGHT, "loss = net(x)", "said = critic(x)  # why", "loss = loss + w * said.mean()"
    )
    assert after(guarded(Source(text, "t.py"), 5, [4]), text) == function(
        WEIGHT,
        "loss = net(x)",
        "if w:",
        "    said = critic(x)  # why",
        "    loss = loss + w * said.mean()",
    )


def test_what_is_left_of_the_sum_and_what_a_log_reads_is_there_otherwise():
    text = function(
        WEIGHT, "said = -critic(x).mean()", "loss = net(x) + 2 * w * said + 1", "log(loss, said)"
    )
    assert after(guarded(Source(text, "t.py"), 4, [3]), text) == function(
        WEIGHT,
        "if w:",
        "    said = -critic(x).mean()",
        "    loss = net(x) + 2 * w * said + 1",
        "else:",
        "    loss = net(x) + 1",
        "    said = loss.new_zeros(())",
        "log(loss, said)",
    )


def test_a_term_that_is_added_in_place_needs_no_other_arm():
    text = function(WEIGHT, "loss = net(x)", "loss += w * critic(x).mean()")
    assert after(guarded(Source(text, "t.py"), 4, [4]), text) == function(
        WEIGHT, "loss = net(x)", "if w:", "    loss += w * critic(x).mean()"
    )


@pytest.mark.parametrize(
    "lines",
    [
        (WEIGHT, "loss = w * critic(x).mean()"),  # nothing would be left to learn from
        ("loss = net(x) + step * critic(x).mean()",),  # nobody says that the weight can be zero
        (WEIGHT, "said = critic(x)", "print(said)", "loss = net(x) + w * said.mean()"),
        (WEIGHT, "said = critic(x)", "loss = net(said) + w * said.mean()"),  # of use elsewhere
        (
            WEIGHT,
            "for each in [said]: log(each); said = critic(x)",
            "loss = net(x) + w * said.mean()",
        ),
    ],
)
def test_a_term_that_is_not_plain_stays(lines):
    text = function(*lines)
    calls = [number for number, line in enumerate(text.splitlines(), 1) if "critic(" in line]
    assert guarded(Source(text, "t.py"), len(lines) + 1, calls) is None


def test_an_assignment_that_nobody_reads_goes():
    text = function("maps = critic(x)", "return net(x)")
    assert after(unread(Source(text, "t.py"), 2), text) == function("return net(x)")


def test_of_a_tuple_of_calls_the_one_that_nobody_reads_goes():
    text = function("maps, out = critic(x), net(x)", "return out")
    assert after(unread(Source(text, "t.py"), 2), text) == function("out = net(x)", "return out")


@pytest.mark.parametrize(
    "lines",
    [
        ("maps = critic(x)", "return maps"),
        ("maps = critic(x)", "return locals()"),
        ("self.maps = critic(x)", "return 1"),
        ("maps = net(critic(x)); y = 1", "return y"),
    ],
)
def test_an_assignment_that_may_be_read_stays(lines):
    assert unread(Source(function(*lines), "t.py"), 2) is None


def test_what_one_branch_alone_reads_is_computed_there():
    text = function(
        "far = critic(x)",
        "total = far.mean()",
        "y = net(x)",
        "if step == 0:",
        "    return total",
        "return y",
    )
    assert after(sunk(Source(text, "t.py"), 2), text) == function(
        "y = net(x)",
        "if step == 0:",
        "    far = critic(x)",
        "    total = far.mean()",
        "    return total",
        "return y",
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("far = critic(x)", "if far.mean() > 0:", "    return far", "return 1"),
        ("far = critic(x)", "if step:", "    return far", "return far"),
        ("far = critic(x)", "x = net(x)", "if step:", "    return far", "return x"),
        ("far = critic(x)", "if step:", "    return 1", "else:", "    return far"),
    ],
)
def test_what_is_read_elsewhere_is_computed_where_it_was(lines):
    assert sunk(Source(function(*lines), "t.py"), 2) is None


def test_a_tree_with_an_edit_holds_copies_of_what_was_edited_and_links_to_the_rest(tmp_path):
    root, tree = tmp_path / "root", tmp_path / "tree"
    (root / "net" / "data").mkdir(parents=True)
    for name in ("train.py", "other.py", "net/model.py", "net/data/x.txt"):
        (root / name).write_text(name)
    make_tree(root, {"net/model.py": b"new"}, "train.py", tree)
    assert (tree / "net/model.py").read_bytes() == b"new"
    assert (root / "net/model.py").read_text() == "net/model.py"
    assert not (tree / "train.py").is_symlink()
    assert (tree / "other.py").is_symlink()
    assert (tree / "net/data/x.txt").read_text() == "net/data/x.txt"
