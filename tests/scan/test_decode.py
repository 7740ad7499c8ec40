import pytest

from pitstop.scan.decode import UnreadableError, decode, encode


@pytest.mark.parametrize(
    "data",
    [
        b"a = 1\r\nb = 2\r\n",
        b"\xef\xbb\xbfa = 'x'\n",
        "# -*- coding: latin-1 -*-\na = 'é'\n".encode("latin-1"),
        "a = 'é'\n".encode(),
        b"",
        b"a = 1",
    ],
)
def test_bytes_come_back_as_they_were(data):
    text, encoding = decode(data)
    assert encode(text, encoding) == data


def test_the_mark_is_not_part_of_the_text_and_the_cookie_counts():
    assert decode(b"\xef\xbb\xbfa")[0] == "a"
    assert decode("# coding: latin-1\né".encode("latin-1"))[0].endswith("é")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a\0b", "NUL"),
        (b"a = '\xe9'\n", "cannot be decoded"),
        (b"# coding: klingon\n", "cannot be decoded"),
    ],
)
def test_what_cannot_be_decoded_says_why_in_one_line(data, reason):
    with pytest.raises(UnreadableError, match=reason) as caught:
        decode(data)
    assert "\n" not in str(caught.value)
