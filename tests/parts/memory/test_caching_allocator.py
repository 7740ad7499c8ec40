from hypothesis import given
from hypothesis import strategies as st

from pitstop.parts.memory.allocator import CachingAllocator

MIB = 2**20


def test_rounds_up_to_512_bytes():
    memory = CachingAllocator()
    memory.take(1, 1)
    memory.take(2, 513)
    assert memory.allocated == 512 + 1024
    assert memory.reserved == 2 * MIB


def test_small_requests_share_a_segment_and_large_ones_have_their_own():
    memory = CachingAllocator()
    memory.take(1, MIB)
    memory.take(2, MIB)
    assert memory.reserved == 2 * MIB
    memory.take(3, 3 * MIB)
    assert memory.reserved == 22 * MIB
    memory.take(4, 11 * MIB + 1)  # would fit into what is left of the 20 MiB
    assert memory.reserved == 22 * MIB
    memory.take(5, 11 * MIB + 1)
    assert memory.reserved == 34 * MIB


def test_what_is_left_of_a_large_piece_is_split_off_beyond_one_mib_only():
    memory = CachingAllocator()
    assert memory.take(1, 11 * MIB + 1) == 12 * MIB
    assert memory.take(2, 12 * MIB) == 12 * MIB


def test_free_neighbours_join():
    memory = CachingAllocator()
    for number in range(3):
        memory.take(number, 5 * MIB)
    for number in (0, 2, 1):
        memory.free(number)
    assert memory.allocated == 0
    memory.take(4, 20 * MIB)
    assert memory.reserved == 20 * MIB


def test_takes_the_smallest_that_fits():
    memory = CachingAllocator()
    memory.take(1, 30 * MIB)
    memory.take(2, 14 * MIB)
    memory.free(1)
    memory.free(2)
    memory.take(3, 13 * MIB)
    memory.take(4, 30 * MIB)
    assert memory.reserved == 44 * MIB


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30 * MIB)), max_size=80))
def test_counts_what_is_in_use(requests):
    memory, sizes = CachingAllocator(), {}
    for number, size in requests:
        if number in sizes:
            memory.free(number)
            del sizes[number]
        else:
            sizes[number] = memory.take(number, size)
            assert sizes[number] >= size
        assert memory.allocated == sum(sizes.values()) <= memory.reserved
    for number in sizes:
        memory.free(number)
    assert memory.allocated == 0
