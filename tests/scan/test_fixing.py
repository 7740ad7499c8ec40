from pitstop.core.finding import Edit, Finding, Fix, Span
from pitstop.scan.fixing import apply_fixes


def finding(*edits, path="a.py", safe=True):
    return Finding("x", Span(path, 1, 1, 1, 2), fix=Fix("x", edits, safe))


def test_unsafe_fixes_wait_to_be_asked_for():
    unsafe = finding(Edit(0, 1, "b"), safe=False)
    assert apply_fixes({"a.py": "a\n"}, [unsafe], unsafe=False).applied == ()
    assert apply_fixes({"a.py": "a\n"}, [unsafe], unsafe=True).texts == {"a.py": "b\n"}


def test_of_two_that_overlap_the_later_one_waits():
    first, second = finding(Edit(0, 3, "x")), finding(Edit(2, 4, "y"))
    fixed = apply_fixes({"a.py": "abcd\n"}, [first, second], unsafe=False)
    assert fixed.applied == (first,)
    assert fixed.texts == {"a.py": "xd\n"}


def test_a_fix_over_two_files_is_applied_to_both_or_to_none():
    both = finding(Edit(0, 1, "x"), Edit(0, 1, "y", "b.py"))
    texts = {"a.py": "a\n", "b.py": "b\n"}
    assert apply_fixes(texts, [both], False).texts == {"a.py": "x\n", "b.py": "y\n"}
    clash = finding(Edit(0, 1, "z"), path="b.py")
    assert apply_fixes(texts, [clash, both], False).texts == {"b.py": "z\n"}


def test_a_fix_that_reaches_into_a_file_that_was_not_given_is_left_out():
    outside = finding(Edit(0, 1, "x"), Edit(0, 1, "y", "/etc/passwd"))
    assert apply_fixes({"a.py": "a\n"}, [outside], False).texts == {}


def test_a_fix_that_breaks_its_file_is_left_out_and_the_others_stay():
    good, bad = finding(Edit(0, 1, "x")), finding(Edit(4, 5, "("))
    fixed = apply_fixes({"a.py": "a = b\n"}, [good, bad], False)
    assert fixed.applied == (good,)
    assert fixed.texts == {"a.py": "x = b\n"}


def test_two_fixes_may_need_the_same_import():
    one = finding(Edit(0, 0, "import torch\n"), Edit(0, 1, "x"))
    two = finding(Edit(0, 0, "import torch\n"), Edit(2, 3, "y"))
    fixed = apply_fixes({"a.py": "a;b\n"}, [finding(*two.fix.edits)], False)
    assert fixed.texts == {"a.py": "import torch\na;y\n"}
    assert len(apply_fixes({"a.py": "a;b\n"}, [one, two], False).applied) == 1
